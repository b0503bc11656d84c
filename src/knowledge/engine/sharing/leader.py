"""Leader election for one data folder: the process that holds engine.lock is the leader.

The other processes connect to it with the URL and token in engine.json.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from knowledge.engine.proxy import EngineHost
from knowledge.engine.remote.engine import connect
from knowledge.engine.sharing.engine_file import read_engine_file
from knowledge.errors import (
    DeadlineExceeded,
    EngineUnreachable,
    KnowledgeError,
    NotNow,
    RateLimited,
    StorageFailed,
    Unauthenticated,
    Unavailable,
)
from knowledge.filesystem import file_modes

log = logging.getLogger(__name__)

FIND_ENGINE_SECONDS = 30.0
"""Time limit for becoming the leader or connecting to it."""
LOCK_POLL_SECONDS = 0.03

OpenLocalEngine = Callable[[], AbstractAsyncContextManager[EngineHost]]
"""Opens the local engine and writes engine.json."""


class LeaderElection:
    """Provides the engine of a data folder: the local one while this process is the leader, otherwise a remote one."""

    def __init__(self, folder: Path, open_local: OpenLocalEngine) -> None:
        self._folder, self._open_local = folder, open_local
        self._engine_lock = asyncio.Lock()
        self.current: EngineHost | None = None
        """The engine in use; None until it is found, and after it was lost."""
        self._stack = AsyncExitStack()
        try:
            file_modes.make_folder(folder)
            self._lock = _make_lock(folder)
        except OSError as error:
            raise _make_folder_error(folder, error) from error

    @property
    def is_leader(self) -> bool:
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
        """Drop an engine that cannot be reached any more; the next call finds another."""
        async with self._engine_lock:
            if self.current is engine:
                log.info("lost the connection to the leader of this data folder; looking for the next one")
                await self._release()

    async def _find_engine(self) -> EngineHost:
        """Acquire the lock, or connect to its holder."""
        deadline = time.monotonic() + FIND_ENGINE_SECONDS
        while time.monotonic() < deadline:
            if self._try_lock():
                return await self._become_leader()
            if (engine := await self._reach_leader()) is not None:
                return engine
            await asyncio.sleep(LOCK_POLL_SECONDS)
        raise Unavailable(
            f"Another process uses the data folder {self._folder} and does not answer",
            hint="Wait until it has ended, or stop it; 'knowledge doctor' shows its process id.",
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
        engine_file = read_engine_file(self._folder)
        if engine_file is None:
            return None
        engine = connect(engine_file.url, engine_file.token)
        try:
            await engine.status()
        except (EngineUnreachable, Unauthenticated, RateLimited, DeadlineExceeded):  # a stale file: its writer is gone
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


@contextmanager
def hold_data_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder, so that no server can use it; raises NotNow while one does."""
    try:
        file_modes.make_folder(folder)
        lock = _make_lock(folder)
        lock.acquire(timeout=0)
    except Timeout as error:
        found = read_engine_file(folder)
        raise NotNow(
            f"A server uses the data folder {folder}" + (f" (process {found.pid})" if found else ""),
            hint="Stop it first, and agents that have started one of their own.",
            folder=str(folder),
        ) from error
    except OSError as error:
        raise _make_folder_error(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def _make_lock(folder: Path) -> BaseFileLock:
    # No soft lock: a lock file that merely exists would outlive a killed process.
    return FileLock(
        folder / "engine.lock", timeout=0, mode=file_modes.FILE_MODE, thread_local=False, fallback_to_soft=False
    )


def _make_folder_error(folder: Path, error: OSError) -> KnowledgeError:
    return StorageFailed(
        f"The data folder {folder} cannot be used: {error.strerror or error}",
        hint="Choose another folder with --data or KNOWLEDGE_DATA, or make it writable for this user.",
        folder=str(folder),
    )
