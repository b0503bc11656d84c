"""How a process of ours is started: with our own import path, and without our secrets."""

from __future__ import annotations

import os
import sys

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "VIRTUAL_ENV")
SINGLE = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
"""One thread for each document: threads reserve address space, which is what the memory limit counts."""


def environment() -> dict[str, str]:
    """A parser has no use for API keys, so it gets none."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | SINGLE


def program(call: str) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {call}"]
