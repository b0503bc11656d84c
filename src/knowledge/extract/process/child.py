"""Child processes: command, environment, limits, exit status."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from knowledge import errors

OUT_OF_MEMORY = re.compile("(?i)memory allocation|bad_alloc|out of memory|cannot allocate|MemoryError")
MAX_STDERR_BYTES = 4096

KEPT_VARIABLES = ("SYSTEMROOT",) if sys.platform == "win32" else ()  # Python does not start on Windows without it
SINGLE_THREAD_VARIABLES = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TOKIO_WORKER_THREADS": "1",
}
"""One thread per document, because threads reserve address space, and RLIMIT_AS counts address space."""
MALLOC_VARIABLES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TOP_PAD_": str(32 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Huge pages, where glibc and the kernel support them: a new process has a page fault for each page that it touches."""


def explain_exit(ending: ChildExit, limits: ParserLimits, pages: int) -> errors.KnowledgeError:
    name = find_signal_name(ending.exit_code)
    if name == "SIGXCPU":
        return errors.ParserTooSlow(f"Processing exceeded its CPU time after {pages} pages", pages=pages, signal=name)
    if _ran_out_of_memory(ending, limits):
        return errors.ParserTooBig(
            f"Processing exceeded its memory limit of {limits.memory_bytes >> 20} MB after {pages} pages",
            limit_bytes=limits.memory_bytes,
            pages=pages,
            signal=name,
        )
    how = f"was killed by {name}" if name else f"exited early with code {ending.exit_code}"
    return errors.ParserDied(
        f"The parser {how} after {pages} pages", signal=name, exit_code=ending.exit_code, pages=pages
    )


def find_signal_name(code: int) -> str | None:
    try:
        return signal.Signals(-code).name if code < 0 else None
    except ValueError:
        return f"signal {-code}"


def _ran_out_of_memory(ending: ChildExit, limits: ParserLimits) -> bool:
    if OUT_OF_MEMORY.search(ending.stderr):
        return True
    # a failed allocation of a large block ends native code long before its memory reaches the limit
    return ending.exit_code < 0 and ending.peak_memory_bytes > limits.memory_bytes // 3


class StderrPipe:
    """A non-blocking pipe for a child's standard error; output beyond its capacity is dropped."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self.writer, False)
            os.set_blocking(self._reader, False)

    def close_writer(self) -> None:
        """Close the child's end in this process, after the child has it."""
        os.close(self.writer)

    def read_and_close(self) -> str:
        """Return the output of a child that has ended, and close the pipe."""
        try:
            return os.read(self._reader, MAX_STDERR_BYTES).decode(errors="replace")
        except BlockingIOError:
            return ""
        finally:
            os.close(self._reader)


@dataclass(frozen=True, slots=True)
class ChildExit:
    exit_code: int
    """The exit code, or the negative number of the signal."""
    peak_memory_bytes: int = 0
    """Peak resident memory; 0 if unknown."""
    stderr: str = ""


class ChildProcess(Protocol):
    pid: int | None

    def read(self, timeout: float) -> bytes | None:
        """Return output of the child, b"" at its end, or None after the timeout."""

    def kill(self) -> None: ...

    def wait_for_exit(self) -> ChildExit:
        """Wait for the child to end and release its resources."""


class ChildLauncher(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def start_child(self, request: bytes) -> ChildProcess: ...

    def list_pids(self) -> list[int]:
        """Return the processes that run now."""


@dataclass(frozen=True, slots=True)
class ParserLimits:
    seconds: float = 120.0
    """Base of the time limit; the next two are added."""
    seconds_per_page: float = 10.0
    """Added for each page that was sent, so that only a parser that makes progress gets more time."""
    seconds_per_megabyte: float = 2.0
    memory_bytes: int = 1500 << 20
    """On top of the memory of the loaded parsers."""
    text_bytes: int = 400 << 20
    open_files: int = 64

    def seconds_for(self, size: int, pages: int) -> float:
        """Return the time limit of a document of this many bytes after this many pages."""
        return self.seconds + self.seconds_per_page * pages + self.seconds_per_megabyte * (size / (1 << 20))


def build_environment() -> dict[str, str]:
    """Return an environment without secrets; glibc reads its settings for malloc only when a process starts."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | (
        MALLOC_VARIABLES if sys.platform == "linux" else {}
    )


def clear_environment() -> None:
    """Delete the environment of this process, and set native libraries to one thread."""
    for name in [name for name in os.environ if name not in KEPT_VARIABLES]:
        del os.environ[name]
    if sys.platform == "linux":
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
        ctypes.memset(start, 0, end - start)  # the copy that /proc/self/environ shows
    for name, value in SINGLE_THREAD_VARIABLES.items():
        os.putenv(name, value)  # leaves os.environ empty


def build_command(code: str) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {code}"]
