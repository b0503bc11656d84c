"""`knowledge serve`: the server, over HTTP or over standard input and output."""

from __future__ import annotations

import asyncio
import gc
from contextlib import closing, nullcontext, suppress
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.output.screen import say
from knowledge.surfaces.cli.session import Session, read_settings

if TYPE_CHECKING:
    from knowledge.config import Settings
    from knowledge.engine.api import Engine
    from knowledge.surfaces.http.server import Address


@click.command(
    epilog=examples(
        "knowledge serve",
        "knowledge serve --port 3000 --toolsets knowledge,kb",
        "knowledge serve --transport stdio",
        "KB_API_KEY=… KB_MCP_API_KEY=… knowledge serve --host 0.0.0.0",
    )
)
@click.option("--host", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1; env: KNOWLEDGE_HOST]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 takes a free one.  [default: 8000; env: KNOWLEDGE_PORT]",
)
@click.option("--toolsets", metavar="NAMES", help="Which contracts to serve, by comma.  [env: KNOWLEDGE_TOOLSETS]")
@click.option(
    "--transport", type=click.Choice(["http", "stdio"]), default="http", show_default=True, help="How agents reach it."
)
@common
@pass_session
def serve(session: Session, host: str | None, port: int | None, toolsets: str | None, transport: str) -> None:
    """Start the server, until Ctrl-C."""
    given = {"data": session.folder, "host": host, "port": port, "toolsets": toolsets}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    from knowledge.surfaces.http.logs import configure

    configure(settings)
    asyncio.run(over_stdio(settings) if transport == "stdio" else over_http(settings))


async def over_http(settings: Settings) -> None:
    """Listen at once; until the engine is there, /health says so. Why it cannot be there ends the server."""
    from knowledge.surfaces.http.app import http_app
    from knowledge.surfaces.http.auth import check_binding, unlocked
    from knowledge.surfaces.http.open_engine import opening
    from knowledge.surfaces.http.server import serve as listen

    if settings.api_key is None:  # no account can stand in for this one
        check_binding(settings)
    async with opening(settings) as (engine, opened):
        if settings.api_key is not None and unlocked(settings):
            check_binding(settings, accounts=await any_account(engine, opened))
        app = http_app(engine, settings, ready=opened.done)
        serving = asyncio.create_task(listen(app, settings, settings.host, settings.port, greet))
        await asyncio.wait({serving, opened}, return_when=asyncio.FIRST_COMPLETED)
        if opened.done() and opened.exception() is not None:
            serving.cancel()
            await asyncio.wait({serving})
            opened.result()
        warning = asyncio.create_task(warn_of_exposures(settings, engine, opened))
        gc.freeze()  # what a start has made stays; no collection need look through it while somebody waits
        try:
            await serving
        finally:
            warning.cancel()


async def warn_of_exposures(settings: Settings, engine: Engine, opened: asyncio.Task[None]) -> None:
    """Say which keys are short and which sides are open; whether there are accounts only the engine knows."""
    from knowledge.errors import KnowledgeError
    from knowledge.surfaces.http.exposure import find_open_sides, find_short_keys, log_exposures

    log_exposures(find_short_keys(settings))
    if any(find_open_sides(settings, accounts=True)):
        with suppress(KnowledgeError):  # what is wrong with the engine is told to whoever asks it something
            log_exposures(find_open_sides(settings, accounts=await any_account(engine, opened)))


async def any_account(engine: Engine, opened: asyncio.Task[None]) -> bool:
    """Whether there is anybody who could come in with a key of their own; an engine that is away knows of nobody."""
    from knowledge.errors import EngineUnreachable, Forbidden, Unauthenticated

    await opened
    with suppress(EngineUnreachable, Unauthenticated, Forbidden):
        return bool(await engine.accounts())
    return False


async def over_stdio(settings: Settings) -> None:
    from knowledge.surfaces.cli.connection import engine
    from knowledge.surfaces.http.auth import account_for
    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.services import Services
    from knowledge.surfaces.mcp.call_limits import limits
    from knowledge.surfaces.mcp.stdio import serve_stdio
    from knowledge.toolsets import registry

    allowed = limits(settings, as_the_user=True)
    async with engine(settings) as opened:
        services = Services(opened, settings)
        caller = await account_for(opened, settings.manager_api_key)
        with closing(RateLimits.of(settings)) if caller.key else nullcontext() as rates:
            async with services.running():
                await serve_stdio(
                    opened.as_caller(caller), registry(), limits=allowed, toolsets=settings.toolsets, caller=caller,
                    services=services.by_kind, rates=rates,
                )  # fmt: skip


def greet(address: Address) -> None:
    """The three lines that a newcomer needs."""
    say(f"Knowledge Server listens on {address.url}")
    say("Add a document:    knowledge add FILE")
    say(f"Connect an agent:  claude mcp add --transport http knowledge {address.url}/mcp")
