"""Compares our seccomp filter with the same rules in libseccomp (needs libseccomp2 and `pip install pyseccomp`).

    python benchmarks/seccomp_filters.py [--rounds 200]

Each round forks a child that completes a prepared filter and installs it, as a child of the fork server does. Printed
are the length of the BPF program, the CPU time of the installation and of one system call under the filter, and how a
system call fails that is newer than the table.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from knowledge.extract.sandbox import confine, seccomp
from knowledge.extract.sandbox.libc import open_libc

CALLS = 100_000
NEW_SYSCALL = 1000
PAGE_BYTES = 4096


def list_rules(library: Any) -> list[tuple[Any, str, list[Any]]]:
    """The rules of our filter that do not depend on the process, in the terms of libseccomp."""
    equal, masked, arg = library.EQ, library.MASKED_EQ, library.Arg
    rules: list[tuple[Any, str, list[Any]]] = [(library.ALLOW, name, []) for name in seccomp.ALLOWED_SYSCALLS]
    rules += [(library.ERRNO(errno.ENOSYS), name, []) for name in seccomp.ENOSYS_SYSCALLS]
    rules += [(library.ERRNO(errno.EINVAL), name, []) for name in seccomp.EINVAL_SYSCALLS]
    rules += [
        (library.ALLOW, "open", [arg(1, masked, seccomp.NON_READ_FLAGS, 0)]),
        (library.ALLOW, "openat", [arg(2, masked, seccomp.NON_READ_FLAGS, 0)]),
        (library.ALLOW, "clone", [arg(0, masked, _clone_mask(), seccomp.CLONE_THREAD)]),
        (library.ALLOW, "prlimit64", [arg(0, equal, 0), arg(1, equal, seccomp.RLIMIT_CPU)]),
        (library.ALLOW, "prlimit64", [arg(0, equal, 0), arg(2, equal, 0)]),
        (
            library.ALLOW,
            "socketpair",
            [arg(0, equal, seccomp.AF_UNIX), arg(1, masked, seccomp.SOCK_TYPE_MASK, seccomp.SOCK_STREAM)],
        ),
        (library.ALLOW, "sendto", [arg(4, equal, 0)]),
    ]
    for name, argument, values in (
        ("fcntl", 1, seccomp.FCNTL_COMMANDS),
        ("ioctl", 1, seccomp.IOCTL_COMMANDS),
        ("prctl", 0, seccomp.PRCTL_OPTIONS),
    ):
        rules += [(library.ALLOW, name, [arg(argument, masked, 0xFFFFFFFF, value)]) for value in values]
    return rules


def _clone_mask() -> int:
    return 0xFFFFFFFF & ~seccomp.CLONE_PTHREAD_FLAGS | seccomp.CLONE_THREAD


@cache
def prepare_peer() -> tuple[Any, Any]:
    """Build the part that is the same for every process, before the fork."""
    library = import_module("pyseccomp")
    built = library.SyscallFilter(library.ERRNO(errno.EPERM))
    for action, name, arguments in list_rules(library):
        built.add_rule(action, name, *arguments)
    return library, built


def install_peer() -> None:
    library, built = prepare_peer()
    for name in ("kill", "tgkill", "tkill"):
        built.add_rule(library.ALLOW, name, library.Arg(0, library.EQ, os.getpid()))
    built.load()


def install_ours() -> None:
    reason = seccomp.install_filter()
    assert reason is None, reason


def install_nothing() -> None:
    pass


def measure_in_child(install: Callable[[], None]) -> dict[str, float]:
    """Fork, install, call; what the child measured comes back over a pipe."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, json.dumps(_measure(install)).encode())
        os._exit(0)
    os.close(writer)
    answer: dict[str, float] = json.loads(os.read(reader, PAGE_BYTES))
    os.close(reader)
    os.wait()
    return answer


def _measure(install: Callable[[], None]) -> dict[str, float]:
    libc = open_libc()
    libc.prctl(confine.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    began = time.process_time()
    install()
    installed = time.process_time()
    for _ in range(CALLS):
        os.getppid()
    called = time.process_time()
    libc.syscall(NEW_SYSCALL)
    return {
        "install_us": (installed - began) * 1e6,
        "call_ns": (called - installed) / CALLS * 1e9,
        "errno": ctypes.get_errno(),
    }


def count_instructions() -> tuple[int, int]:
    """Return the length of both programs; that of libseccomp lacks the three rules for the process itself."""
    architecture = seccomp.find_architecture()
    assert architecture is not None
    with tempfile.TemporaryFile() as file:
        prepare_peer()[1].export_bpf(file)
        return len(seccomp.build_filter(architecture, os.getpid())) // 8, os.fstat(file.fileno()).st_size // 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    seccomp.prepare_filter()
    ours, peer = count_instructions()
    kinds = (("no filter", install_nothing, 0), ("ours", install_ours, ours), ("libseccomp", install_peer, peer))
    for name, install, length in kinds:
        found = [measure_in_child(install) for _ in range(given.rounds)]
        install_us, call_ns = (statistics.median(one[key] for one in found) for key in ("install_us", "call_ns"))
        code = errno.errorcode[int(found[0]["errno"])]
        print(
            f"{name:<12} {length:4d} instructions, {install_us:8.0f} us a child, {call_ns:6.0f} ns a call, new: {code}"
        )


if __name__ == "__main__":
    main()
