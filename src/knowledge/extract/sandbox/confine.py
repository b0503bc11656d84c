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
from knowledge.extract.process.child import ParserLimits
from knowledge.extract.sandbox import landlock, seccomp
from knowledge.extract.sandbox.landlock import list_library_paths, list_readable_paths
from knowledge.extract.sandbox.libc import open_libc

if sys.platform != "win32":
    import resource

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 1, 4, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAPABILITY_VERSION = 0x20080522
FILE_CAPABILITIES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH."""


class SandboxMode(StrEnum):
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


def prepare_sandbox() -> None:
    """In a fork server, when the parsers are imported: work out once what all its children need."""
    if sys.platform == "linux":
        list_library_paths()
        landlock.find_abi_version()
        seccomp.prepare_filter()


def confine_process(
    limits: ParserLimits, size: int, document: Path | None, mode: SandboxMode = SandboxMode.AUTO
) -> dict[str, str]:
    """Sandboxes this process: resource limits (rlimits), dropped capabilities, Landlock and seccomp.

    What could not be done is returned, each with its reason; SandboxUnavailable where it was required.
    """
    readable = list_readable_paths(document) if sys.platform == "linux" else ()
    if sys.platform != "win32":
        _set_resource_limits(limits)
        limit_cpu_seconds(limits.seconds_for(size, 0))
    if mode is SandboxMode.OFF:
        return {"sandbox": "KNOWLEDGE_SANDBOX is off"}
    if sys.platform != "win32":
        _forbid_file_growth()
    _disable_python_sockets()
    missing = _restrict_kernel_access(readable)
    if missing and mode is SandboxMode.REQUIRE:
        reasons = "; ".join(missing.values())
        raise SandboxUnavailable(f"Parsers cannot be contained on this machine: {reasons}", missing=[*missing])
    return missing


def limit_cpu_seconds(seconds: float) -> None:
    """The CPU time that this process may have used in all; more, and the kernel ends it with SIGXCPU."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _restrict_kernel_access(readable: tuple[str, ...]) -> dict[str, str]:
    """Landlock before seccomp, which forbids the calls that Landlock takes."""
    if sys.platform != "linux":
        return {"platform": "only Linux has seccomp and Landlock"}
    forbid_inspection()
    _drop_capabilities()
    open_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    tried = {"landlock": landlock.restrict_files(readable), "seccomp": seccomp.install_filter()}
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


def _set_resource_limits(limits: ParserLimits) -> None:
    if sys.platform == "linux":  # elsewhere the kernel takes the number and ignores it; the parent watches instead
        _lower_limit(resource.RLIMIT_AS, _read_address_space_bytes() + limits.memory_bytes)
    _lower_limit(resource.RLIMIT_NOFILE, limits.open_files)
    _lower_limit(resource.RLIMIT_CORE, 0)


def _forbid_file_growth() -> None:
    """No file grows, no page is locked in memory, no message waits in a queue."""
    for name in ("RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            _lower_limit(getattr(resource, name), 0)


def _lower_limit(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _read_address_space_bytes() -> int:
    """What is mapped already: the interpreter and the parsers that were loaded before the fork."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _disable_python_sockets() -> None:
    """Where the kernel cannot be asked, at least Python code finds no sockets."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("A parser has no business on the network")

    for name in ("socket", "create_connection", "create_server", "socketpair", "getaddrinfo"):
        setattr(socket, name, refuse)
