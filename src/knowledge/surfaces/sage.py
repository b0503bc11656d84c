"""Assembles contract 003 (sage) from content folder, tokenizer and layer index, and serves it over HTTP and stdio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NoReturn, cast

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from knowledge.engine.api import Engine
from knowledge.errors import EngineUnreachable, Unavailable
from knowledge.model import SAGE_OWNER, Scope
from knowledge.surfaces.mcp.endpoint import refuse_request
from knowledge.toolsets.base import CallLimits, Registry
from knowledge.toolsets.sage.configuration import SageConfiguration
from knowledge.toolsets.sage.content_folder import ContentFolder
from knowledge.toolsets.sage.layer_index import LayerIndex, OpenLayers
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.token_budget import CountTokens
from knowledge.toolsets.sage.tools import select_capabilities

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from knowledge.config import Settings


UNCOUNTED_METHODS = ("GET", "HEAD")
"""Not limited: health checks, and the event streams that clients of the handshake era keep open."""


class ConcurrencyLimit:
    """An ASGI wrapper that refuses requests above a number in flight with 503."""

    def __init__(self, app: ASGIApp, max_requests: int) -> None:
        self._app, self._max_requests = app, max_requests
        self._in_flight = 0

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope.get("method") in UNCOUNTED_METHODS:
            await self._app(scope, receive, send)
            return
        if self._in_flight >= self._max_requests:
            await self._refuse(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1

    async def _refuse(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013, "reason": "too many connections"})
            return
        error = Unavailable(
            f"The limit of {self._max_requests} concurrent requests is reached",
            hint="Try again in a moment, or raise max_connections.",
            max_connections=self._max_requests,
        )
        await refuse_request(error, receive, send)


def open_sage(configuration: SageConfiguration, open_layers: OpenLayers | None = None) -> SageService:
    """Return the sage service; without `open_layers` it searches by words only."""
    library = Library(ContentFolder(configuration.content))
    layer_index = LayerIndex(library, open_layers) if open_layers is not None else None
    return SageService(library, load_token_counter, layer_index=layer_index, ceiling_ms=configuration.timeout_ms)


def load_token_counter() -> CountTokens:
    """Return a function that counts tokens with the tokenizer of the embedding model."""
    from knowledge.app import build_model_choice
    from knowledge.embed import loading

    settings = load_settings()
    tokenizer = loading.load_tokenizer(build_model_choice(settings, settings.embedding))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def load_settings() -> Settings:
    from knowledge.config import read_settings

    return read_settings()


def scope_to_layers(engine: Engine) -> Engine | None:
    """Return a view of the engine that sees the sage layers, or None if the engine runs in another process."""
    with_scope = getattr(engine, "with_scope", None)
    return cast("Engine | None", with_scope(Scope(SAGE_OWNER))) if with_scope is not None else None


def share_engine(engine: Engine) -> OpenLayers:
    """Use an engine that is already open for the layer index."""

    @asynccontextmanager
    async def open_layers() -> AsyncIterator[Engine | None]:
        yield scope_to_layers(engine)

    return open_layers


@asynccontextmanager
async def open_own_layers() -> AsyncIterator[Engine | None]:
    """Open the engine of the data folder for the layer index."""
    from knowledge.surfaces.http.open_engine import open_engine

    async with open_engine(load_settings()) as engine:
        yield scope_to_layers(engine)


class MissingEngine:
    """A placeholder where an Engine is required: sage reads files, and its layer index opens an engine itself."""

    def __getattr__(self, name: str) -> NoReturn:
        raise EngineUnreachable(f"sage has no engine for '{name}'")


def make_missing_engine() -> Engine:
    return cast(Engine, MissingEngine())


def make_sage_registry(configuration: SageConfiguration) -> Registry:
    return Registry([select_capabilities(configuration.capabilities)])


def make_sage_app(sage: SageService, configuration: SageConfiguration, settings: Settings) -> ASGIApp:
    """Return an application that serves sage alone at /mcp."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.server import wrap_in_guard_and_log
    from knowledge.surfaces.http.wrong_keys import WrongKeys
    from knowledge.surfaces.mcp.routes import make_routes
    from knowledge.surfaces.mcp.standalone_sessions import StandaloneMcpSessions
    from knowledge.surfaces.mcp.surface import McpSurface

    surface = McpSurface(
        make_sage_registry(configuration),
        lambda _: make_missing_engine(),
        limits=CallLimits(answer_chars=settings.answer_chars),
        toolsets="sage",
        services={SageService: sage},
        session_ids=StandaloneMcpSessions(settings.data),
    )

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "healthy"})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with sage.run(search_soon=True), surface.run():
            yield

    app = Starlette(routes=[*make_routes(surface), Route("/health", health)], lifespan=lifespan)
    rates = RateLimits.for_authentication(settings)
    rates.wrong_keys = WrongKeys.from_settings(settings)
    return wrap_in_guard_and_log(ConcurrencyLimit(app, configuration.max_connections), settings, rates=rates)


async def serve_http(configuration: SageConfiguration) -> None:
    """Serve sage over HTTP until SIGINT or SIGTERM."""
    import sys

    from knowledge.surfaces.http.auth import Surface, check_binding
    from knowledge.surfaces.http.exposure import find_short_keys, log_exposures
    from knowledge.surfaces.http.logs import configure_logging
    from knowledge.surfaces.http.server import ServerAddress, serve_until_signal

    settings = load_settings().model_copy(update={"host": configuration.host, "port": configuration.port})
    configure_logging(settings)
    check_binding(settings, (Surface.MCP,))
    log_exposures(find_short_keys(settings.model_copy(update={"api_key": None})))  # sage does not use KB_API_KEY
    sage = open_sage(configuration, open_own_layers)

    def greet(address: ServerAddress) -> None:
        sys.stderr.write(f"SAGE listens on {address.url}/mcp\n")

    app = make_sage_app(sage, configuration, settings)
    await serve_until_signal(app, settings, configuration.host, configuration.port, greet)


async def serve_stdio(configuration: SageConfiguration) -> None:
    """Serve sage over stdio until stdin is closed."""
    from knowledge.surfaces.http.logs import configure_logging
    from knowledge.surfaces.mcp import stdio

    settings = load_settings()
    configure_logging(settings)
    sage = open_sage(configuration, open_own_layers)
    async with sage.run():
        await stdio.serve_stdio(
            make_missing_engine(),
            make_sage_registry(configuration),
            limits=CallLimits(answer_chars=settings.answer_chars),
            toolsets="sage",
            services={SageService: sage},
        )
