"""What a child does to itself before it opens a document: whatever the platform gives without privileges."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path

from knowledge.extract import seccomp
from knowledge.extract.limits import Limits

if sys.platform != "win32":
    import resource

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent() -> None:
    """Linux: be killed when the process that forked us ends, however it ends."""
    if LIBC is None:
        return
    parent = os.getppid()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def confine(limits: Limits, size: int) -> None:
    """Bound what this process can take, and shut it off from network, files and other processes."""
    if sys.platform != "win32":
        _bound(limits)
        allow_seconds(limits.seconds_for(size, 0))
    _no_network()
    if sys.platform == "linux":
        seccomp.lock()


def allow_seconds(seconds: float) -> None:
    """The CPU time that this process may have used in all; more, and the kernel ends it with SIGXCPU."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _bound(limits: Limits) -> None:
    if sys.platform == "linux":  # elsewhere the kernel takes the number and ignores it; the parent watches instead
        _lower(resource.RLIMIT_AS, _address_space() + limits.memory_bytes)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_CORE, 0)


def _lower(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (value, value))


def _address_space() -> int:
    """What is mapped already: the interpreter and the parsers that were loaded before the fork."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _no_network() -> None:
    """Where the kernel cannot be asked, at least Python code finds no sockets."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("A parser has no business on the network")

    for name in ("socket", "create_connection", "create_server", "socketpair", "getaddrinfo"):
        setattr(socket, name, refuse)
