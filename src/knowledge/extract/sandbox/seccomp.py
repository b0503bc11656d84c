"""A seccomp filter that allows a child only the system calls that parsers need (decision 0016).

The filter is a BPF program that the kernel runs on each system call; it needs no privileges and cannot be removed.
Refused calls fail with EPERM, which parsers report as an ordinary error. Calls that libraries can do without fail with
ENOSYS, as on an older kernel, so that the libraries use their fallback.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass
from functools import cache

from knowledge.extract.sandbox.libc import describe_errno, open_libc

X86_64_NUMBERS = {
    "access": 21, "arch_prctl": 158, "brk": 12, "clock_getres": 229, "clock_gettime": 228, "clock_nanosleep": 230,
    "clone": 56, "clone3": 435, "close": 3, "close_range": 436, "dup": 32, "dup2": 33, "dup3": 292,
    "epoll_create": 213, "epoll_create1": 291, "epoll_ctl": 233, "epoll_pwait": 281, "epoll_pwait2": 441,
    "epoll_wait": 232, "eventfd": 284, "eventfd2": 290, "exit": 60, "exit_group": 231, "faccessat": 269,
    "faccessat2": 439, "fadvise64": 221, "fcntl": 72, "fstat": 5, "futex": 202, "futex_waitv": 449, "getcpu": 309,
    "getcwd": 79, "getdents64": 217, "getegid": 108, "geteuid": 107, "getgid": 104, "getpid": 39, "getppid": 110,
    "getrandom": 318, "getrlimit": 97, "getrusage": 98, "gettid": 186, "gettimeofday": 96, "getuid": 102, "ioctl": 16,
    "kill": 62, "lseek": 8, "lstat": 6, "madvise": 28, "membarrier": 324, "mmap": 9, "mprotect": 10, "mremap": 25,
    "munmap": 11, "nanosleep": 35, "newfstatat": 262, "open": 2, "openat": 257, "openat2": 437, "pipe": 22,
    "pipe2": 293, "pkey_alloc": 330, "poll": 7, "ppoll": 271, "prctl": 157, "pread64": 17, "preadv": 295,
    "preadv2": 327, "prlimit64": 302, "pselect6": 270, "read": 0, "readlink": 89, "readlinkat": 267, "readv": 19,
    "recvfrom": 45, "restart_syscall": 219, "rseq": 334, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "sched_getaffinity": 204, "sched_yield": 24, "seccomp": 317, "select": 23, "sendto": 44, "set_robust_list": 273,
    "set_tid_address": 218, "sigaltstack": 131, "socketpair": 53, "stat": 4, "statx": 332, "sysinfo": 99,
    "tgkill": 234, "time": 201, "times": 100, "tkill": 200, "uname": 63, "write": 1, "writev": 20,
}  # fmt: skip
AARCH64_NUMBERS = {
    "brk": 214, "clock_getres": 114, "clock_gettime": 113, "clock_nanosleep": 115, "clone": 220, "clone3": 435,
    "close": 57, "close_range": 436, "dup": 23, "dup3": 24, "epoll_create1": 20, "epoll_ctl": 21, "epoll_pwait": 22,
    "epoll_pwait2": 441, "eventfd2": 19, "exit": 93, "exit_group": 94, "faccessat": 48, "faccessat2": 439,
    "fadvise64": 223, "fcntl": 25, "fstat": 80, "futex": 98, "futex_waitv": 449, "getcpu": 168, "getcwd": 17,
    "getdents64": 61, "getegid": 177, "geteuid": 175, "getgid": 176, "getpid": 172, "getppid": 173, "getrandom": 278,
    "getrlimit": 163, "getrusage": 165, "gettid": 178, "gettimeofday": 169, "getuid": 174, "ioctl": 29, "kill": 129,
    "lseek": 62, "madvise": 233, "membarrier": 283, "mmap": 222, "mprotect": 226, "mremap": 216, "munmap": 215,
    "nanosleep": 101, "newfstatat": 79, "openat": 56, "openat2": 437, "pipe2": 59, "pkey_alloc": 289, "ppoll": 73,
    "prctl": 167, "pread64": 67, "preadv": 69, "preadv2": 286, "prlimit64": 261, "pselect6": 72, "read": 63,
    "readlinkat": 78, "readv": 65, "recvfrom": 207, "restart_syscall": 128, "rseq": 293, "rt_sigaction": 134,
    "rt_sigprocmask": 135, "rt_sigreturn": 139, "sched_getaffinity": 123, "sched_yield": 124, "seccomp": 277,
    "sendto": 206, "set_robust_list": 99, "set_tid_address": 96, "sigaltstack": 132, "socketpair": 199, "statx": 291,
    "sysinfo": 179, "tgkill": 131, "times": 153, "tkill": 130, "uname": 160, "write": 64, "writev": 66,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    audit_arch: int
    """The AUDIT_ARCH constant in struct seccomp_data."""
    numbers: dict[str, int]
    newest_number: int = 450
    """Higher numbers fail with ENOSYS, because libraries that try a new call have a fallback."""


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, X86_64_NUMBERS),
    "aarch64": Architecture(0xC00000B7, AARCH64_NUMBERS),
}


def find_architecture() -> Architecture | None:
    """Return the table of this processor; None if there is none, also for a 32-bit program."""
    return ARCHITECTURES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None


ALLOWED_SYSCALLS = (
    # open descriptors, file metadata
    *("read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "close", "close_range", "lseek"),
    *("dup", "dup2", "dup3", "pipe", "pipe2", "fstat", "newfstatat", "stat", "lstat", "statx", "access", "faccessat"),
    *("faccessat2", "getdents64", "getcwd", "fadvise64", "recvfrom"),
    # waiting
    *("poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait"),
    *("epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2", "nanosleep", "clock_nanosleep"),
    # memory and threads
    *("brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "membarrier", "futex", "set_robust_list"),
    *("set_tid_address", "rseq", "sched_yield", "sched_getaffinity", "getcpu", "gettid", "arch_prctl"),
    # signals to itself, time, information about itself, exit
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "clock_gettime"),
    *("clock_getres", "gettimeofday", "time", "times", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid"),
    *("uname", "sysinfo", "getrusage", "getrlimit", "getrandom", "exit", "exit_group"),
)
ENOSYS_SYSCALLS = ("clone3", "openat2", "futex_waitv", "pkey_alloc")
"""clone3 and openat2 pass their flags by pointer, which a filter cannot follow."""
EINVAL_SYSCALLS = ("readlink", "readlinkat")
"""EINVAL means "not a symbolic link": realpath works, and the targets of links stay unknown."""

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | getattr(os, "O_CREAT", 0) | getattr(os, "O_TRUNC", 0)
NON_READ_FLAGS = WRITE_FLAGS | getattr(os, "O_APPEND", 0) | getattr(os, "O_PATH", 0) | getattr(os, "O_ASYNC", 0)
CLONE_THREAD, CLONE_PTHREAD_FLAGS = 0x00010000, 0x007D0F00
"""The thread flag, and all flags that pthread_create of glibc and musl sets."""
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC; no locks, leases, owners or pipe sizes."""
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX."""
PRCTL_OPTIONS = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA (names of threads and of memory)."""
RLIMIT_CPU, AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK = 0, 1, 1, 0xF
X32_BIT = 0x40000000
"""Set in the numbers of the x32 ABI, which duplicates all calls."""

SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
LOAD, AND, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in struct seccomp_data; both architectures are little-endian, so the low half of an argument comes first."""


def _encode_instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _encode_errno(number: int) -> bytes:
    return _encode_instruction(RETURN, 0x00050000 | number)


ALLOW, REFUSE = _encode_instruction(RETURN, 0x7FFF0000), _encode_errno(errno.EPERM)


def install_filter() -> str | None:
    """Install the filter on every thread of this process; return the reason if that is not possible.

    PR_SET_NO_NEW_PRIVS must be set before.
    """
    architecture = find_architecture()
    if architecture is None:
        return f"there is no seccomp filter for the processor {platform.machine()}"
    program = build_filter(architecture, os.getpid())
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    number = architecture.numbers["seccomp"]
    answer = open_libc().syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, header)
    if answer == 0:
        return None
    reason = describe_errno() if answer < 0 else f"thread {answer} could not be included"
    return f"the seccomp filter could not be installed: {reason}"


def prepare_filter() -> None:
    """Build and cache the part of the filter that is the same for every process."""
    if (architecture := find_architecture()) is not None:
        _build_shared_part(architecture)


def build_filter(architecture: Architecture, pid: int) -> bytes:
    """Return the filter of a process, which may send signals only to itself (abort needs that)."""
    signals = [_build_rule(architecture, name, _allow_values(0, (pid,))) for name in ("kill", "tgkill", "tkill")]
    return b"".join([*_build_shared_part(architecture), *signals, REFUSE])


@cache  # computed by the fork server once for all children
def _build_shared_part(architecture: Architecture) -> tuple[bytes, ...]:
    steps = [
        _encode_instruction(LOAD, ARCHITECTURE_OFFSET),
        _encode_instruction(JUMP_EQUAL, architecture.audit_arch, 1, 0),
        REFUSE,
        _encode_instruction(LOAD, NUMBER_OFFSET),
        _encode_instruction(JUMP_AT_LEAST, X32_BIT, 0, 1),
        REFUSE,
        _encode_instruction(JUMP_GREATER, architecture.newest_number, 0, 1),
        _encode_errno(errno.ENOSYS),
    ]
    steps += [_build_rule(architecture, name, ALLOW) for name in ALLOWED_SYSCALLS]
    steps += [_build_rule(architecture, name, _encode_errno(errno.ENOSYS)) for name in ENOSYS_SYSCALLS]
    steps += [_build_rule(architecture, name, _encode_errno(errno.EINVAL)) for name in EINVAL_SYSCALLS]
    steps += [_build_rule(architecture, name, rule) for name, rule in _build_argument_rules().items()]
    return tuple(steps)


def _build_argument_rules() -> dict[str, bytes]:
    """Return the rules of calls that are allowed with some arguments only."""
    return {
        "open": _refuse_bits(1, NON_READ_FLAGS),
        "openat": _refuse_bits(2, NON_READ_FLAGS),
        "clone": _load_argument(0)
        + _encode_instruction(JUMP_ANY_BIT, 0xFFFFFFFF & ~CLONE_PTHREAD_FLAGS, 2, 0)
        + _encode_instruction(JUMP_ANY_BIT, CLONE_THREAD, 0, 1)
        + ALLOW
        + REFUSE,
        "fcntl": _allow_values(1, FCNTL_COMMANDS),
        "ioctl": _allow_values(1, IOCTL_COMMANDS),
        "prctl": _allow_values(0, PRCTL_OPTIONS),
        # reading its own limits is allowed; setting is for CPU time only, which each page that was sent raises
        "prlimit64": _decide_unless_zero(0, REFUSE)
        + _load_argument(1)
        + _encode_instruction(JUMP_EQUAL, RLIMIT_CPU, 0, 1)
        + ALLOW
        + _decide_unless_zero(2, REFUSE, halves=2)
        + ALLOW,
        # asynchronous native code wakes itself through a socket pair; a datagram socket could reach other processes
        "socketpair": _load_argument(0)
        + _encode_instruction(JUMP_EQUAL, AF_UNIX, 1, 0)
        + REFUSE
        + _load_argument(1)
        + _encode_instruction(AND, SOCK_TYPE_MASK)
        + _encode_instruction(JUMP_EQUAL, SOCK_STREAM, 0, 1)
        + ALLOW
        + REFUSE,
        "sendto": _decide_unless_zero(4, REFUSE, halves=2) + ALLOW,
    }


def _build_rule(architecture: Architecture, name: str, decision: bytes) -> bytes:
    """Return the rule of one call; empty if the architecture does not have the call."""
    number = architecture.numbers.get(name)
    if number is None:
        return b""
    return _encode_instruction(JUMP_EQUAL, number, 0, len(decision) // 8) + decision


def _load_argument(argument: int, half: int = 0) -> bytes:
    return _encode_instruction(LOAD, ARGUMENTS_OFFSET + 8 * argument + 4 * half)


def _allow_values(argument: int, values: tuple[int, ...]) -> bytes:
    allowed = b"".join(_encode_instruction(JUMP_EQUAL, value, 0, 1) + ALLOW for value in values)
    return _load_argument(argument) + allowed + REFUSE


def _refuse_bits(argument: int, mask: int) -> bytes:
    return _load_argument(argument) + _encode_instruction(JUMP_ANY_BIT, mask, 0, 1) + REFUSE + ALLOW


def _decide_unless_zero(argument: int, decision: bytes, halves: int = 1) -> bytes:
    steps = (
        _load_argument(argument, half) + _encode_instruction(JUMP_EQUAL, 0, 1, 0) + decision for half in range(halves)
    )
    return b"".join(steps)
