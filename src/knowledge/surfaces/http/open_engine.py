"""Opens the engine of a data folder for the command line, a stdio server or an HTTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from pydantic import SecretStr
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.proxy import EngineHost
from knowledge.engine.remote.engine import connect
from knowledge.engine.sharing import engine_file
from knowledge.engine.sharing.engine import make_shared_engine
from knowledge.engine.sharing.leader import LeaderElection
from knowledge.extract.sandbox.confine import forbid_inspection

if TYPE_CHECKING:
    from knowledge.engine.local import LocalEngine

SHARE_DELAY_SECONDS = 0.5
"""Shorter commands start no server for other processes, which wait for the lock instead."""


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Engine]:
    """Open the engine and wait until it can answer."""
    async with open_engine_in_background(settings) as (engine, opened):
        await opened
        yield engine


@asynccontextmanager
async def open_engine_in_background(
    settings: Settings, *, start: asyncio.Event | None = None
) -> AsyncIterator[tuple[Engine, asyncio.Task[None]]]:
    """Open the remote engine of KB_ENGINE_URL, or the engine of the data folder in this or another process.

    Calls may be made at once and wait for the engine; the task ends when it is open, or raises the error. With `start`
    the engine is opened when the event is set, or by the first call.
    """
    if settings.engine_url:
        key = settings.api_key.get_secret_value() if settings.api_key else None
        remote = connect(settings.engine_url, key)
        try:
            yield remote, asyncio.create_task(asyncio.sleep(0))
        finally:
            await remote.close()
        return
    election = LeaderElection(settings.data, lambda: open_and_share_engine(settings))
    opened = asyncio.create_task(_wait_for_engine(election, start))
    try:
        yield make_shared_engine(election), opened
    finally:
        opened.cancel()
        await asyncio.wait({opened})
        await election.close()


async def _wait_for_engine(election: LeaderElection, start: asyncio.Event | None) -> None:
    if start is not None:
        await start.wait()
    await election.get_engine()


@asynccontextmanager
async def open_and_share_engine(settings: Settings) -> AsyncIterator[EngineHost]:
    """Open the engine as the leader of the data folder and serve the other processes on a loopback port."""
    forbid_inspection()
    engine = await asyncio.to_thread(_open_local_engine, settings)
    stop = asyncio.Event()
    try:
        await asyncio.to_thread(engine.start)
        sharing = asyncio.create_task(_serve_other_processes(engine, settings, stop))
        try:
            yield engine
        finally:
            stop.set()  # requests of other processes are finished before the engine closes
            await asyncio.wait({sharing})
    finally:
        await asyncio.to_thread(engine.close)


def _open_local_engine(settings: Settings) -> LocalEngine:
    from knowledge.app import (
        open_engine,
    )  # takes most of a second: in a thread, so that requests are answered meanwhile

    return open_engine(settings)


async def _serve_other_processes(engine: Engine, settings: Settings, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(SHARE_DELAY_SECONDS):
            await stop.wait()
            return
    from knowledge.surfaces.http.connections import ConnectionLimits, raise_descriptor_limit
    from knowledge.surfaces.http.server import make_server, open_sockets

    token = engine_file.new_token()
    sockets = open_sockets("127.0.0.1", 0)
    limits = ConnectionLimits.from_settings(settings, raise_descriptor_limit(), for_engine_file=True)
    server = make_server(make_shared_app(engine, settings, token), limits)
    entry = engine_file.EngineFile.for_this_process(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", token)
    serving = asyncio.create_task(server.serve(sockets=sockets))
    engine_file.write_engine_file(settings.data, entry)
    try:
        await stop.wait()
    finally:
        engine_file.remove_engine_file(settings.data, entry)
        server.stop()
        await asyncio.wait({serving})


def make_shared_app(engine: Engine, settings: Settings, token: str) -> ASGIApp:
    """Build the REST API for the port in engine.json, which accepts its token and the keys of accounts."""
    from knowledge.surfaces.http.auth import Authenticator
    from knowledge.surfaces.http.rate_limits import RateLimits
    from knowledge.surfaces.http.server import wrap_in_guard_and_log
    from knowledge.surfaces.rest import make_rest_app

    # This port has no proxy: a trusted one could claim a new client address for every guess of the token.
    own = settings.model_copy(
        update={
            "api_key": SecretStr(token),
            "mcp_api_key": None,
            "cors_origins": "",
            "trusted_proxies": "",
            "oauth": False,
        }
    )
    # Only authentication is rate limited: processes that use the token limit their own callers. The token has 256
    # random bits, so wrong tokens from other users of this machine never lock it out.
    rates = RateLimits.for_authentication(settings)
    app = make_rest_app(engine, max_file_bytes=settings.max_file_bytes, rates=rates)
    authenticator = Authenticator.from_settings(
        own, engine.accounts.find_by_key, engine.sessions.find, find_forwarded=engine.oauth.find_token
    )
    return wrap_in_guard_and_log(app, own, authenticator, rates)
