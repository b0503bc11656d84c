"""Limits the memory that glibc's malloc keeps after it was freed; does nothing with other C libraries."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable

MAX_ARENAS = 2
# By default glibc spreads threads over 8 arenas per core, each of which keeps what is freed in it. tantivy starts a
# thread with 15 MB for every commit, so an import of 400 chunks left 14 MB in each of 15 arenas
# (docs/explanation/performance.md).
M_ARENA_MAX = -8
# Number of the parameter in malloc.h.
IDLE_SECONDS = 5.0


def limit_arenas() -> None:
    """Limit the number of arenas; call it before threads start, and not if the environment sets it."""
    libc = _find_glibc()
    if libc is not None and "MALLOC_ARENA_MAX" not in os.environ:
        libc.mallopt(M_ARENA_MAX, MAX_ARENAS)


def return_free_memory() -> None:
    """Return free pages of all arenas to the operating system."""
    libc = _find_glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _find_glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt") else None


class IdleTrimmer:
    """A thread that returns free memory once after the start, and once after each period of work."""

    def __init__(
        self,
        count_work: Callable[[], int],
        trim: Callable[[], None] = return_free_memory,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._count_work, self._trim, self._idle_seconds = count_work, trim, idle_seconds
        self._trimmed_at: int | None = None
        self._seen = count_work()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-trimmer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def check(self) -> None:
        """Trim if nothing was done since the last check, but something since the last trim."""
        done = self._count_work()
        if done == self._seen != self._trimmed_at:
            self._trim()
            self._trimmed_at = done
        self._seen = done

    def _run(self) -> None:
        while not self._closing.wait(self._idle_seconds):
            self.check()
