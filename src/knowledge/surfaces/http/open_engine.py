"""The engine of a data folder for any process: the command line, a stdio server, an HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from pydantic import SecretStr
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http
from knowledge.engine.sharing import engine_file as cards
from knowledge.engine.sharing.engine import SharedEngine
from knowledge.engine.sharing.leader import Seat
from knowledge.extract.sandbox.confine import forbid_inspection

SHORT = 0.5
"""A command that is done sooner never tells the others where it is: they wait for the lock instead."""


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Engine]:
    """The engine, when it answers."""
    async with opening(settings) as (engine, opened):
        await opened
        yield engine


@asynccontextmanager
async def opening(settings: Settings) -> AsyncIterator[tuple[Engine, asyncio.Task[None]]]:
    """The engine elsewhere that the settings name, or the one of the data folder, ours or another process's.

    It may be asked at once; the task ends when it is there, or with the reason why it cannot be.
    """
    if settings.engine_url:
        key = settings.api_key.get_secret_value() if settings.api_key else None
        remote = RemoteEngine(open_http(settings.engine_url, key))
        try:
            yield remote, asyncio.create_task(asyncio.sleep(0))
        finally:
            await remote.close()
        return
    seat = Seat(settings.data, lambda: holding(settings))
    opened = asyncio.create_task(_opened(seat))
    try:
        yield SharedEngine(seat), opened
    finally:
        opened.cancel()
        await asyncio.wait({opened})
        await seat.close()


async def _opened(seat: Seat) -> None:
    await seat.engine()


@asynccontextmanager
async def holding(settings: Settings) -> AsyncIterator[Engine]:
    """The embedded engine, served to other processes of this user on a loopback port with a token of its own."""
    from knowledge.app import open_engine as open_local

    forbid_inspection()
    engine = await asyncio.to_thread(open_local, settings)
    stop = asyncio.Event()
    try:
        await asyncio.to_thread(engine.start)
        sharing = asyncio.create_task(_share(engine, settings, stop))
        try:
            yield engine
        finally:
            stop.set()  # guests are answered to the end, and then told nothing more
            await asyncio.wait({sharing})
    finally:
        await asyncio.to_thread(engine.close)


async def _share(engine: Engine, settings: Settings, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(SHORT):
            await stop.wait()
            return
    from knowledge.surfaces.http.connections import ConnectionLimits, raise_descriptor_limit
    from knowledge.surfaces.http.server import listen, make_server

    token = cards.new_token()
    sockets = listen("127.0.0.1", 0)
    limits = ConnectionLimits.of(settings, raise_descriptor_limit(), for_engine_file=True)
    server = make_server(shared_app(engine, settings, token), limits)
    card = cards.Card.new(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", token)
    serving = asyncio.create_task(server.serve(sockets=sockets))
    cards.write(settings.data, card)
    try:
        await stop.wait()
    finally:
        cards.remove(settings.data, card)
        server.stop()
        await asyncio.wait({serving})


def shared_app(engine: Engine, settings: Settings, token: str) -> ASGIApp:
    """The REST API on the port of engine.json: for the bearer of its token, and for accounts by their own keys."""
    from knowledge.surfaces.http.auth import Keys
    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.server import front
    from knowledge.surfaces.rest import rest_app

    # No proxy stands before this port: whoever could name one would have a new address for every guess.
    own = settings.model_copy(
        update={"api_key": SecretStr(token), "mcp_api_key": None, "cors_origins": "", "trusted_proxies": ""}
    )
    # Only the limit on authentication: the processes that come with the token count their callers themselves. The token
    # has 256 random bits, so a right one is let in however many wrong ones another user of this machine has tried.
    rates = RateLimits.for_authentication(settings)
    app = rest_app(engine, max_file_bytes=settings.max_file_bytes, rates=rates)
    return front(app, own, Keys.of(own, engine.account_of), rates)
