"""How a process of ours is started: with our own import path, and without our environment."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

KEPT = ("SYSTEMROOT",) if sys.platform == "win32" else ()
"""Windows starts no Python without it."""
SINGLE = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TOKIO_WORKER_THREADS": "1",
}
"""One thread for each document: threads reserve address space, which is what the memory limit counts."""
ROOMY = {"MALLOC_ARENA_MAX": "1", "MALLOC_TOP_PAD_": str(32 << 20), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Memory in large pages, where glibc and the kernel give them: a child touches all of its memory for the first time."""


def environment() -> dict[str, str]:
    """Nothing of ours: a parser has no use for keys, names and paths. glibc reads how to allocate when it starts."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | (ROOMY if sys.platform == "linux" else {})


def empty_environment() -> None:
    """Forget what this process was started with, and tell native libraries, past Python, to use one thread."""
    for name in [name for name in os.environ if name not in KEPT]:
        del os.environ[name]
    if sys.platform == "linux":
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
        ctypes.memset(start, 0, end - start)  # what /proc/self/environ shows
    for name, value in SINGLE.items():
        os.putenv(name, value)


def program(call: str) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {call}"]
