"""How a process of ours is started: with our own import path, and without our secrets."""

from __future__ import annotations

import os
import sys

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "VIRTUAL_ENV")
SINGLE = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TOKIO_WORKER_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
}
"""One thread for each document: threads reserve address space, which is what the memory limit counts."""
ROOMY = {"MALLOC_TOP_PAD_": str(32 << 20), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Memory in large pages, where glibc and the kernel give them: a child touches all of its memory for the first time."""


def environment() -> dict[str, str]:
    """A parser has no use for API keys, so it gets none."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | SINGLE | ROOMY


def program(call: str) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {call}"]
