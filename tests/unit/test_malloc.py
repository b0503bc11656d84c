"""Memory that glibc keeps: few arenas, and free pages are returned when the engine is idle."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from knowledge.malloc import IdleTrimmer, return_free_memory

ON_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
FREE_IN_THREADS = """
import ctypes, threading
from pathlib import Path
from knowledge.malloc import limit_arenas, return_free_memory

{limit}
libc, ready = ctypes.CDLL(None), threading.Barrier(12)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def use_memory():
    ready.wait()  # threads that run at the same time get arenas of their own
    blocks = [libc.malloc(100_000) for _ in range(50)]
    last = libc.malloc(100)  # keeps the arena from shrinking by itself
    for block in blocks:
        ctypes.memset(block, 1, 100_000)
        libc.free(block)
    ready.wait()

threads = [threading.Thread(target=use_memory) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
{trim}
lines = Path("/proc/self/maps").read_text().splitlines()
starts = [int(line.split("-")[0], 16) for line in lines if " rw-p 00000000 00:00 0" in line]
print(sum(start % (64 << 20) == 0 for start in starts))
print(next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line))
"""


def run_threads(limit: str = "", trim: str = "") -> tuple[int, int]:
    """Return the number of arenas beside the first, and the anonymous memory in KB, of a process with 12 threads."""
    program = FREE_IN_THREADS.format(limit=limit, trim=trim)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    arenas, memory = map(int, done.stdout.split())
    return arenas, memory


@ON_GLIBC
def test_threads_share_two_arenas() -> None:
    arenas, _ = run_threads("limit_arenas()")
    assert arenas <= 1 < run_threads()[0]


@ON_GLIBC
def test_free_memory_is_returned() -> None:
    assert run_threads(trim="return_free_memory()")[1] < run_threads()[1] - 20_000


def test_returning_memory_works_with_every_c_library() -> None:
    return_free_memory()


def test_memory_is_returned_once_after_each_period_of_work() -> None:
    done, trims = [0], list[int]()
    trimmer = IdleTrimmer(lambda: done[0], lambda: trims.append(done[0]))
    trimmer.check()  # after the start
    trimmer.check()
    assert trims == [0]
    for number in (1, 2):
        done[0] = number
        trimmer.check()  # still at work
    assert trims == [0]
    trimmer.check()
    trimmer.check()
    assert trims == [0, 2]
