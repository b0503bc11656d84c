"""The engine's seat: whoever holds the lock of a data folder is its engine, and the others find it by its card."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from knowledge.engine.api import Engine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http
from knowledge.engine.sharing import engine_file as cards
from knowledge.errors import (
    DeadlineExceeded,
    EngineUnreachable,
    KnowledgeError,
    RateLimited,
    StorageFailed,
    Unauthenticated,
    Unavailable,
)
from knowledge.store import file_modes

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""How long we look for an engine before we say that there is none."""
GLANCE = 0.03

OpenLocal = Callable[[], AbstractAsyncContextManager[Engine]]
"""Opens the embedded engine on the folder and tells the others where it is."""


class Seat:
    """`engine` answers the engine of the folder: ours while we hold the lock, otherwise the holder's."""

    def __init__(self, folder: Path, open_local: OpenLocal) -> None:
        self._folder, self._open_local = folder, open_local
        self._turn = asyncio.Lock()
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()
        try:
            file_modes.make_folder(folder)
            # A lock file that merely exists would outlive a killed process; only a real lock will do.
            self._lock = FileLock(
                folder / "engine.lock", timeout=0, mode=file_modes.FILE_MODE, thread_local=False, fallback_to_soft=False
            )
        except OSError as error:
            raise _unusable(folder, error) from error

    @property
    def ours(self) -> bool:
        """Whether this process is the engine."""
        return bool(self._lock.is_locked)

    async def engine(self) -> Engine:
        async with self._turn:
            if self._engine is None:
                self._engine = await self._find()
            return self._engine

    async def close(self) -> None:
        async with self._turn:
            await self._let_go()

    async def lost(self, engine: Engine) -> None:
        """This engine has ended; the next call looks for another."""
        async with self._turn:
            if self._engine is engine:
                log.info("the engine of this data folder has ended; looking for the next one")
                await self._let_go()

    async def _find(self) -> Engine:
        """Take the lock, or reach whoever has it; two that start at once settle it here."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self._take():
                return await self._become()
            if (engine := await self._reach()) is not None:
                return engine
            await asyncio.sleep(GLANCE)
        raise Unavailable(
            f"Another process holds the data folder {self._folder} and does not answer",
            hint="Wait until it has ended, or stop it; 'knowledge doctor' tells which one it is.",
        )

    def _take(self) -> bool:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            raise _unusable(self._folder, error) from error
        return True

    async def _become(self) -> Engine:
        try:
            return await self._stack.enter_async_context(self._open_local())
        except BaseException:
            self._lock.release()
            raise

    async def _reach(self) -> Engine | None:
        card = cards.read(self._folder)
        if card is None:
            return None
        engine = RemoteEngine(open_http(card.url, card.token))
        try:
            await engine.status()
        except (EngineUnreachable, Unauthenticated, RateLimited, DeadlineExceeded):  # an old card: its writer is gone
            await engine.close()
            return None
        self._stack.push_async_callback(engine.close)
        return engine

    async def _let_go(self) -> None:
        self._engine = None
        try:
            await self._stack.aclose()
        finally:
            self._stack = AsyncExitStack()
            if self._lock.is_locked:
                self._lock.release()


def _unusable(folder: Path, error: OSError) -> KnowledgeError:
    return StorageFailed(
        f"The data folder {folder} cannot be used: {error.strerror or error}",
        hint="Choose another one with --data or KNOWLEDGE_DATA, or give yourself the right to write there.",
        folder=str(folder),
    )
