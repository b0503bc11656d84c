"""How a child process is started, which limits it has, and why it ended."""

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
ABORT_SIGNALS = tuple(getattr(signal, name, None) for name in ("SIGABRT", "SIGTRAP", "SIGILL"))
"""How native code ends when an allocation fails."""

MAX_STDERR_BYTES = 4096

KEPT_VARIABLES = ("SYSTEMROOT",) if sys.platform == "win32" else ()
"""Windows starts no Python without it."""
SINGLE_THREAD_VARIABLES = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TOKIO_WORKER_THREADS": "1",
}
"""One thread for each document: threads reserve address space, which is what the memory limit counts."""
MALLOC_VARIABLES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TOP_PAD_": str(32 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Memory in large pages, where glibc and the kernel give them: a child touches all of its memory for the first time."""


def explain_exit(ending: ChildExit, limits: ParserLimits, pages: int) -> errors.KnowledgeError:
    name = find_signal_name(ending.exit_code)
    if name == "SIGXCPU":
        return errors.ParserTooSlow("Reading it took more processor time than is allowed", pages=pages, signal=name)
    if _ran_out_of_memory(ending, limits):
        return errors.ParserTooBig(
            "It is too large: reading it takes more memory than is allowed",
            limit_bytes=limits.memory_bytes,
            pages=pages,
            signal=name,
        )
    how = f"was ended by {name}" if name else f"ended with code {ending.exit_code} before it was done"
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
    swollen = ending.peak_memory_bytes > limits.memory_bytes // 3
    return swollen and ending.exit_code < 0


class StderrPipe:
    """A pipe that never makes the child wait: what does not fit is lost."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        if sys.platform != "win32":
            os.set_blocking(self.writer, False)
            os.set_blocking(self._reader, False)

    def close_writer(self) -> None:
        """Once the child has its own end."""
        os.close(self.writer)

    def read_and_close(self) -> str:
        """What was said, after the child has ended; the pipe is closed."""
        try:
            return os.read(self._reader, MAX_STDERR_BYTES).decode(errors="replace")
        except BlockingIOError:
            return ""
        finally:
            os.close(self._reader)


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended."""

    exit_code: int
    """Its exit code, or minus the signal that ended it."""
    peak_memory_bytes: int = 0
    """The most memory it held, in bytes; 0 where nobody counted."""
    stderr: str = ""


class ChildProcess(Protocol):
    pid: int | None

    def read(self, timeout: float) -> bytes | None:
        """What it has sent: b"" when it will send no more, None when nothing came in time."""

    def kill(self) -> None: ...

    def wait_for_exit(self) -> ChildExit:
        """Wait for its end and say how that was; everything it held is given back."""


class ChildLauncher(Protocol):
    def start(self) -> None: ...

    def close(self) -> None: ...

    def start_child(self, request: bytes) -> ChildProcess: ...


@dataclass(frozen=True, slots=True)
class ParserLimits:
    seconds: float = 120.0
    """For the document as such; what follows is added to it."""
    seconds_per_page: float = 10.0
    """For every page already handed over, so that only work that gets somewhere earns more time."""
    seconds_per_megabyte: float = 2.0
    memory_bytes: int = 1500 << 20
    """Above what the parsers take when they are merely loaded."""
    text_bytes: int = 400 << 20
    open_files: int = 64

    def seconds_for(self, size: int, pages: int) -> float:
        """The time that a document of this size may have taken after this many pages."""
        return self.seconds + self.seconds_per_page * pages + self.seconds_per_megabyte * (size / (1 << 20))


def build_environment() -> dict[str, str]:
    """Nothing of ours: a parser has no use for keys, names and paths. glibc reads how to allocate when it starts."""
    return {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ} | (
        MALLOC_VARIABLES if sys.platform == "linux" else {}
    )


def clear_environment() -> None:
    """Forget what this process was started with, and tell native libraries, past Python, to use one thread."""
    for name in [name for name in os.environ if name not in KEPT_VARIABLES]:
        del os.environ[name]
    if sys.platform == "linux":
        start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
        ctypes.memset(start, 0, end - start)  # what /proc/self/environ shows
    for name, value in SINGLE_THREAD_VARIABLES.items():
        os.putenv(name, value)


def build_command(code: str) -> list[str]:
    path = [entry or os.getcwd() for entry in sys.path]  # noqa: PTH109
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {path!r}; {code}"]
