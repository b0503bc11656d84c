"""`knowledge serve`: runs the server over HTTP or stdio."""

from __future__ import annotations

import asyncio
import gc
import logging
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.output.terminal import print_message
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.config import Settings
    from knowledge.engine.api import Engine
    from knowledge.surfaces.http.server import ServerAddress

log = logging.getLogger(__name__)


@click.command(
    epilog=format_examples(
        "knowledge serve",
        "knowledge serve --port 3000 --toolsets knowledge,kb",
        "knowledge serve --transport stdio",
        "KB_API_KEY=… KB_MCP_API_KEY=… knowledge serve --host 0.0.0.0",
    )
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on.  [default: 127.0.0.1; env: KNOWLEDGE_HOST]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 picks a free one.  [default: 8000; env: KNOWLEDGE_PORT]",
)
@click.option("--toolsets", metavar="NAMES", help="Comma-separated toolsets to serve.  [env: KNOWLEDGE_TOOLSETS]")
@click.option(
    "--transport", type=click.Choice(["http", "stdio"]), default="http", show_default=True, help="Transport for agents."
)
@click.option(
    "--workers-only",
    "role",
    flag_value="workers-only",
    help="Run jobs for the other servers of KNOWLEDGE_DATABASE_URL; no index, and no API but /health and /ready.",
)
@click.option(
    "--no-workers",
    "role",
    flag_value="no-workers",
    help="Answer requests; other servers of KNOWLEDGE_DATABASE_URL run the jobs.",
)
@common_options
@pass_session
def serve(
    session: CliSession, host: str | None, port: int | None, toolsets: str | None, transport: str, role: str | None
) -> None:
    """Run the server until Ctrl-C."""
    given = {"data": session.data_folder, "host": host, "port": port, "toolsets": toolsets, "server_role": role}
    from knowledge.config import read_settings

    settings = read_settings(**{name: value for name, value in given.items() if value is not None})
    from knowledge.surfaces.http.logs import configure_logging

    configure_logging(settings)
    asyncio.run(run_stdio_server(settings) if transport == "stdio" else run_http_server(settings))


async def run_http_server(settings: Settings) -> None:
    """Listen at once; /health answers 503 until the engine is open, and an error opening it stops the server."""
    from knowledge.surfaces.http.app import make_http_app, make_worker_app
    from knowledge.surfaces.http.auth import check_binding, find_missing_keys
    from knowledge.surfaces.http.open_engine import open_engine_in_background
    from knowledge.surfaces.http.server import open_sockets
    from knowledge.surfaces.http.server import serve_until_signal as listen

    has_api = settings.server_role != "workers-only"
    if settings.api_key is None and has_api:  # accounts replace only the MCP key
        check_binding(settings)
    sockets = open_sockets(settings.host, settings.port)
    settings = settings.model_copy(update={"port": sockets[0].getsockname()[1]})
    async with open_engine_in_background(settings) as (engine, opened):
        if settings.api_key is not None and has_api and find_missing_keys(settings):
            check_binding(settings, accounts=await has_accounts(engine, opened))
        app = (make_http_app if has_api else make_worker_app)(engine, settings, opened.done)
        greet = partial(print_greeting, page=settings.page) if has_api else print_worker_greeting
        serving = asyncio.create_task(listen(app, settings, settings.host, settings.port, greet, sockets))
        await asyncio.wait({serving, opened}, return_when=asyncio.FIRST_COMPLETED)
        if opened.done() and opened.exception() is not None:
            logging.getLogger("uvicorn.error").disabled = True  # it would log that its own task was cancelled
            serving.cancel()
            await asyncio.wait({serving})
            opened.result()
        warning = asyncio.create_task(warn_of_exposures(settings, engine, opened))
        gc.freeze()  # objects from the start live forever; skipping them shortens collections during requests
        try:
            await serving
        finally:
            warning.cancel()


async def warn_of_exposures(settings: Settings, engine: Engine, opened: asyncio.Task[None]) -> None:
    """Log short keys and surfaces without a key; waits for the engine to know whether there are accounts."""
    from knowledge.errors import KnowledgeError
    from knowledge.surfaces.http.exposure import find_open_surfaces, find_short_keys, log_exposures

    log_exposures(find_short_keys(settings))
    if any(find_open_surfaces(settings, accounts=True)):
        with suppress(KnowledgeError):  # requests report the engine's error
            log_exposures(find_open_surfaces(settings, accounts=await has_accounts(engine, opened)))


async def has_accounts(engine: Engine, opened: asyncio.Task[None]) -> bool:
    """Whether there are accounts; False if the remote engine cannot be asked."""
    from knowledge.errors import EngineUnreachable, Forbidden, Unauthenticated

    await opened
    with suppress(EngineUnreachable, Unauthenticated, Forbidden):
        return bool(await engine.accounts.list_all())
    return False


async def run_stdio_server(settings: Settings) -> None:
    """Answer the handshake at once, and open the engine when the client goes on after it."""
    from knowledge.surfaces.http.auth import identify_process_caller
    from knowledge.surfaces.http.open_engine import open_engine_in_background
    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.toolset_services import ToolsetServices
    from knowledge.surfaces.mcp.call_limits import make_call_limits, make_server_links
    from knowledge.surfaces.mcp.stdio import serve_stdio
    from knowledge.toolsets import make_registry

    allowed = make_call_limits(settings, as_user=True)
    start = asyncio.Event()
    async with open_engine_in_background(settings, start=start) as (engine, opened):
        opened.add_done_callback(log_failure)
        if settings.manager_api_key is not None:  # only the engine knows whose key it is
            start.set()
            await opened
        services = ToolsetServices(engine, settings)
        caller = await identify_process_caller(engine, settings.manager_api_key)
        with closing(RateLimits.from_settings(settings)) if caller.key else nullcontext() as rates:
            async with services.run():
                await serve_stdio(
                    engine.as_caller(caller),
                    make_registry(),
                    limits=allowed,
                    links=make_server_links(settings),
                    toolsets=settings.toolsets,
                    caller=caller,
                    services=services.by_type,
                    rates=rates,
                    on_handshake_end=start.set,
                    reports_agents=settings.engine_url is None,
                )
        if start.is_set():
            await asyncio.wait({opened})  # cancelled while it opens, an engine would not be closed


def log_failure(opened: asyncio.Task[None]) -> None:
    """Log why the engine could not be opened; the callers of tools get the same reason."""
    if not opened.cancelled() and (error := opened.exception()) is not None:
        log.error("The engine could not be opened: %s", error)


def print_worker_greeting(address: ServerAddress) -> None:
    """Print where the health of a server with workers only can be asked."""
    print_message(f"Knowledge Server runs jobs; its health is at {address.url}/health")


def print_greeting(address: ServerAddress, *, page: bool = True) -> None:
    """Print the address of the page and the first commands to try."""
    if page:
        print_message(f"Open in a browser: {browser_url(address)}")
    print_message(f"Knowledge Server listens on {address.url}")
    print_message("Add a document:    knowledge add FILE")
    print_message(f"Connect an agent:  claude mcp add --transport http knowledge {address.url}/mcp")


def browser_url(address: ServerAddress) -> str:
    """Return the address to open in a browser on this machine; a server on all addresses is also on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(address.host)
    return f"http://{host}:{address.port}/" if host else f"{address.url}/"
