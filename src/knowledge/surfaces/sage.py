"""Contract 003 put together: the content folder, the tokenizer, the engine's view of the layers, and its server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn, cast

from knowledge.engine.api import Engine
from knowledge.errors import EngineUnreachable, InvalidParameter
from knowledge.model import SAGE_OWNER, Scope
from knowledge.toolsets.base import Registry
from knowledge.toolsets.sage.configuration import Configuration
from knowledge.toolsets.sage.content_folder import Disk
from knowledge.toolsets.sage.index_sync import OpenShelves, Shelves
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.sage.token_budget import Count
from knowledge.toolsets.sage.tools import with_capabilities

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from knowledge.config import Settings


def open_sage(configuration: Configuration, open_shelves: OpenShelves | None = None) -> Sage:
    """The service; without shelves it searches by words alone."""
    library = Library(Disk(configuration.content))
    shelves = Shelves(library, open_shelves) if open_shelves is not None else None
    return Sage(library, load_count, shelves=shelves, ceiling_ms=configuration.timeout_ms)


def load_count() -> Count:
    """How the model counts tokens."""
    from knowledge.app import model_choice
    from knowledge.embed import loading

    settings = settings_now()
    tokenizer = loading.tokenizer(model_choice(settings, settings.embedding))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def settings_now() -> Settings:
    """The settings of the product; read here, since the command line's own way brings all its commands along."""
    from pydantic import ValidationError

    from knowledge.config import Settings

    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise InvalidParameter(f"The setting {name} is wrong: {first['msg']}", parameter=name) from error


def layers_of(engine: Engine) -> Engine | None:
    """The same engine, looking at the layers; one in another process shows only what its owner has."""
    scoped = getattr(engine, "scoped", None)
    return cast("Engine | None", scoped(Scope(SAGE_OWNER))) if scoped is not None else None


def shelves_on(engine: Engine) -> OpenShelves:
    """Shelves on an engine that somebody else opens and closes."""

    @asynccontextmanager
    async def open_shelves() -> AsyncIterator[Engine | None]:
        yield layers_of(engine)

    return open_shelves


@asynccontextmanager
async def own_shelves() -> AsyncIterator[Engine | None]:
    """Shelves on the data folder's engine, opened for this and closed after it."""
    from knowledge.surfaces.http.open_engine import open_engine

    async with open_engine(settings_now()) as engine:
        yield layers_of(engine)


class Nowhere:
    """Stands where an engine is asked for; pages come from files, and shelves open their own."""

    def __getattr__(self, name: str) -> NoReturn:
        raise EngineUnreachable(f"There is no engine here that could {name}")


def nowhere() -> Engine:
    return cast(Engine, Nowhere())


def sage_registry(configuration: Configuration) -> Registry:
    return Registry([with_capabilities(configuration.capabilities)])


def sage_app(sage: Sage, configuration: Configuration, settings: Settings) -> ASGIApp:
    """The layers alone over HTTP, at /mcp."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from knowledge.surfaces.http.concurrency_limit import AtMost
    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.server import front
    from knowledge.surfaces.http.wrong_keys import WrongKeys
    from knowledge.surfaces.mcp.routes import McpSurface

    surface = McpSurface(sage_registry(configuration), lambda _: nowhere(), toolsets="sage", services={Sage: sage})

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "healthy"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sage.running(search_soon=True), surface.running():
            yield

    app = Starlette(routes=[*surface.routes, Route("/health", health)], lifespan=lifespan)
    rates = RateLimits.for_authentication(settings)
    rates.wrong_keys = WrongKeys.of(settings)
    return front(AtMost(app, configuration.max_connections), settings, rates=rates)


async def serve_http(configuration: Configuration) -> None:
    """Until a signal asks to stop."""
    import sys

    from knowledge.surfaces.http.auth import Side, check_binding
    from knowledge.surfaces.http.exposure import find_short_keys, log_exposures
    from knowledge.surfaces.http.logs import configure
    from knowledge.surfaces.http.server import Address, serve

    settings = settings_now().model_copy(update={"host": configuration.host, "port": configuration.port})
    configure(settings)
    check_binding(settings, (Side.MCP,))
    log_exposures(find_short_keys(settings.model_copy(update={"api_key": None})))  # which it does not check
    sage = open_sage(configuration, own_shelves)

    def greet(address: Address) -> None:
        sys.stderr.write(f"SAGE listens on {address.url}/mcp\n")

    app = sage_app(sage, configuration, settings)
    await serve(app, settings, configuration.host, configuration.port, greet)


async def serve_stdio(configuration: Configuration) -> None:
    """Until the other side closes our input."""
    from knowledge.surfaces.http.logs import configure
    from knowledge.surfaces.mcp import stdio

    configure(settings_now())
    sage = open_sage(configuration, own_shelves)
    async with sage.running():
        await stdio.serve_stdio(nowhere(), sage_registry(configuration), toolsets="sage", services={Sage: sage})
