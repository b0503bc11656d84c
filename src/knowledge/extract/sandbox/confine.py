"""Confines a child before it opens a document: resource limits, capabilities, Landlock, seccomp."""

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
    """What to do where the kernel lacks a protection: warn, refuse to parse, or use no sandbox at all."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


def die_with_parent() -> None:
    """Linux: have the kernel kill this process when its parent ends."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    open_libc().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def forbid_inspection() -> None:
    """Linux: forbid other processes of this user to trace this one, read its memory or take its descriptors.

    It also disables core dumps, and makes root the owner of the files in /proc/PID.
    """
    if sys.platform == "linux":
        open_libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def prepare_sandbox() -> None:
    """Compute in the fork server, after the imports, the parts of the sandbox that all children share."""
    if sys.platform == "linux":
        list_library_paths()
        landlock.find_abi_version()
        seccomp.prepare_filter()


def confine_process(
    limits: ParserLimits, size: int, document: Path | None, mode: SandboxMode = SandboxMode.AUTO
) -> dict[str, str]:
    """Sandbox this process and return the missing protections with their reasons.

    Raises SandboxUnavailable if one is missing and the mode is REQUIRE.
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
    """Limit the total CPU time of this process; beyond it the kernel kills the process with SIGXCPU."""
    if sys.platform == "win32":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _restrict_kernel_access(readable: tuple[str, ...]) -> dict[str, str]:
    if sys.platform != "linux":
        return {"platform": "only Linux has seccomp and Landlock"}
    forbid_inspection()
    _drop_capabilities()
    open_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # Landlock first, because the seccomp filter forbids its system calls
    tried = {"landlock": landlock.restrict_files(readable), "seccomp": seccomp.install_filter()}
    return {name: reason for name, reason in tried.items() if reason is not None}


def _drop_capabilities() -> None:
    """Drop all capabilities except those that let root read a document of another user."""
    libc = open_libc()
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    effective, permitted = struct.unpack_from("II", held.raw)
    kept = FILE_CAPABILITIES & effective & permitted
    libc.capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0))


def _set_resource_limits(limits: ParserLimits) -> None:
    if sys.platform == "linux":  # other kernels ignore it; there the parent polls
        _lower_limit(resource.RLIMIT_AS, _read_address_space_bytes() + limits.memory_bytes)
    _lower_limit(resource.RLIMIT_NOFILE, limits.open_files)
    _lower_limit(resource.RLIMIT_CORE, 0)


def _forbid_file_growth() -> None:
    """Forbid writing to files, locking memory and POSIX message queues."""
    for name in ("RLIMIT_FSIZE", "RLIMIT_MEMLOCK", "RLIMIT_MSGQUEUE"):
        if hasattr(resource, name):
            _lower_limit(getattr(resource, name), 0)


def _lower_limit(limit: int, value: int) -> None:
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def _read_address_space_bytes() -> int:
    """Return the size of what is mapped already: the interpreter and the imported parsers."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _disable_python_sockets() -> None:
    """Disable sockets in Python, the only protection on platforms without seccomp."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Parsers have no network access")

    for name in ("socket", "create_connection", "create_server", "socketpair", "getaddrinfo"):
        setattr(socket, name, refuse)
