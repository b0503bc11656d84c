"""What a child does to itself before it opens a document: it gives up all that reading does not take."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
from enum import StrEnum
from pathlib import Path

from knowledge.errors import SandboxUnavailable
from knowledge.extract.process.protocol import Limits
from knowledge.extract.sandbox import landlock, seccomp
from knowledge.extract.sandbox.libc import open_libc
from knowledge.extract.sandbox.readable_paths import list_libraries, list_readable

if sys.platform != "win32":
    import resource

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 4, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522
FILE_CAPABILITIES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


class Sandbox(StrEnum):
    """Whether a child may read a document where the kernel cannot contain it."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


def die_with_parent() -> None:
    """Linux: be killed when the process that forked us ends, however it ends."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    open_libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def forbid_inspection() -> None:
    """Linux: no other process of this user may trace this one, read its memory or take its descriptors.

    It leaves no core dump either, and the files of /proc/PID belong to root.
    """
    if sys.platform == "linux":
        open_libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def prepare() -> None:
    """In a fork server, when the parsers are imported: work out once what all its children need."""
    if sys.platform == "linux":
        list_libraries()
        landlock.find_version()
        seccomp.prepare()


def confine(limits: Limits, size: int, document: Path | None, sandbox: Sandbox = Sandbox.AUTO) -> dict[str, str]:
    """Bound what this process can take, and shut it off from files, network and other processes.

    What could not be done is returned, each with its reason; SandboxUnavailable where it was required.
    """
    readable = list_readable(document) if sys.platform == "linux" else ()
    if sys.platform != "win32":
        _bound(limits)
        allow_seconds(limits.seconds_for(size, 0))
    if sandbox is Sandbox.OFF:
        return {"sandbox": "KNOWLEDGE_SANDBOX is off"}
    if sys.platform != "win32":
        _forbid_growth()
    _no_network()
    missing = _contain(readable)
    if missing and sandbox is Sandbox.REQUIRE:
        reasons = "; ".join(missing.values())
        raise SandboxUnavailable(f"Parsers cannot be contained on this machine: {reasons}", missing=[*missing])
    return missing


def allow_seconds(seconds: float) -> None:
    """The CPU time that this process may have used in all; more, and the kernel ends it with SIGXCPU."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _contain(readable: tuple[str, ...]) -> dict[str, str]:
    """Landlock before seccomp, which forbids the calls that Landlock takes."""
    if sys.platform != "linux":
        return {"platform": "only Linux has seccomp and Landlock"}
    forbid_inspection()
    _drop_capabilities()
    open_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    tried = {"landlock": landlock.restrict(readable), "seccomp": seccomp.install()}
    return {name: reason for name, reason in tried.items() if reason is not None}


def _drop_capabilities() -> None:
    """Root is an ordinary user from now on, but may read its document whoever owns that."""
    libc = open_libc()
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    effective, permitted = struct.unpack_from("II", held.raw)
    kept = FILE_CAPABILITIES & effective & permitted
    libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0))


def _bound(limits: Limits) -> None:
    if sys.platform == "linux":  # elsewhere the kernel takes the number and ignores it; the parent watches instead
        _lower(resource.RLIMIT_AS, _address_space() + limits.memory_bytes)
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_CORE, 0)


def _forbid_growth() -> None:
    """No file grows, no page is locked in memory, no message waits in a queue."""
    for name in ("RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            _lower(getattr(resource, name), 0)


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
