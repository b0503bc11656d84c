"""Where the commands get their engine: the one elsewhere that was named, or one in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from knowledge.config import Settings
from knowledge.engine.api import Engine


@asynccontextmanager
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    if settings.engine_url:
        from knowledge.engine.remote import connect

        remote = connect(settings.engine_url, settings.api_key.get_secret_value() if settings.api_key else None)
        try:
            yield remote
        finally:
            await remote.close()
        return
    import anyio.to_thread

    from knowledge.app import open_engine

    local = open_engine(settings)
    try:
        local.start()
        yield local
    finally:
        await anyio.to_thread.run_sync(local.close)
