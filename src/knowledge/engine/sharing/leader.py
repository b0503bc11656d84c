"""Leader election for one data folder: the process that holds engine.lock is the leader, the others reach it through
engine.json."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

from filelock import FileLock, Timeout

from knowledge.engine.proxy import EngineHost
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http_client
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
from knowledge.filesystem import file_modes

log = logging.getLogger(__name__)

FIND_ENGINE_SECONDS = 30.0
"""How long we look for an engine before we say that there is none."""
LOCK_POLL_SECONDS = 0.03

OpenLocalEngine = Callable[[], AbstractAsyncContextManager[EngineHost]]
"""Opens the embedded engine on the folder and tells the others where it is."""


class LeaderElection:
    """`engine` answers the engine of the folder: ours while we hold the lock, otherwise the holder's."""

    def __init__(self, folder: Path, open_local: OpenLocalEngine) -> None:
        self._folder, self._open_local = folder, open_local
        self._engine_lock = asyncio.Lock()
        self.current: EngineHost | None = None
        """The engine that was found last, while it answers."""
        self._stack = AsyncExitStack()
        try:
            file_modes.make_folder(folder)
            # A lock file that merely exists would outlive a killed process; only a real lock will do.
            self._lock = FileLock(
                folder / "engine.lock", timeout=0, mode=file_modes.FILE_MODE, thread_local=False, fallback_to_soft=False
            )
        except OSError as error:
            raise _make_folder_error(folder, error) from error

    @property
    def is_leader(self) -> bool:
        """Whether this process is the engine."""
        return bool(self._lock.is_locked)

    async def get_engine(self) -> EngineHost:
        async with self._engine_lock:
            if self.current is None:
                self.current = await self._find_engine()
            return self.current

    async def close(self) -> None:
        async with self._engine_lock:
            await self._release()

    async def report_lost(self, engine: EngineHost) -> None:
        """This engine has ended; the next call looks for another."""
        async with self._engine_lock:
            if self.current is engine:
                log.info("the engine of this data folder has ended; looking for the next one")
                await self._release()

    async def _find_engine(self) -> EngineHost:
        """Take the lock, or reach whoever has it; two that start at once settle it here."""
        deadline = time.monotonic() + FIND_ENGINE_SECONDS
        while time.monotonic() < deadline:
            if self._try_lock():
                return await self._become_leader()
            if (engine := await self._reach_leader()) is not None:
                return engine
            await asyncio.sleep(LOCK_POLL_SECONDS)
        raise Unavailable(
            f"Another process holds the data folder {self._folder} and does not answer",
            hint="Wait until it has ended, or stop it; 'knowledge doctor' tells which one it is.",
        )

    def _try_lock(self) -> bool:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:
            raise _make_folder_error(self._folder, error) from error
        return True

    async def _become_leader(self) -> EngineHost:
        try:
            return await self._stack.enter_async_context(self._open_local())
        except BaseException:
            self._lock.release()
            raise

    async def _reach_leader(self) -> EngineHost | None:
        card = cards.read_engine_file(self._folder)
        if card is None:
            return None
        engine = RemoteEngine(open_http_client(card.url, card.token))
        try:
            await engine.status()
        except (EngineUnreachable, Unauthenticated, RateLimited, DeadlineExceeded):  # an old card: its writer is gone
            await engine.close()
            return None
        self._stack.push_async_callback(engine.close)
        return engine

    async def _release(self) -> None:
        self.current = None
        try:
            await self._stack.aclose()
        finally:
            self._stack = AsyncExitStack()
            if self._lock.is_locked:
                self._lock.release()


def _make_folder_error(folder: Path, error: OSError) -> KnowledgeError:
    return StorageFailed(
        f"The data folder {folder} cannot be used: {error.strerror or error}",
        hint="Choose another one with --data or KNOWLEDGE_DATA, or give yourself the right to write there.",
        folder=str(folder),
    )
