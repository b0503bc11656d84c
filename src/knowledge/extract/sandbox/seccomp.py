"""A seccomp filter that leaves a Linux child the system calls that parsers need, by name, and refuses all others.

The filter is a BPF program that the kernel runs on each system call; it needs no privileges and cannot be taken off.
What is refused fails with EPERM, which every parser reports as an ordinary error. Calls for which libraries have
another way where the kernel lacks them fail with ENOSYS, so that they take that way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from functools import cache

from knowledge.extract.sandbox.libc import describe_error, open_libc
from knowledge.extract.sandbox.syscalls import Architecture, find_architecture

ALLOWED = (
    # descriptors that are open, and looking at files
    *("read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "close", "close_range", "lseek"),
    *("dup", "dup2", "dup3", "pipe", "pipe2", "fstat", "newfstatat", "stat", "lstat", "statx", "access", "faccessat"),
    *("faccessat2", "getdents64", "getcwd", "fadvise64", "recvfrom"),
    # waiting
    *("poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait"),
    *("epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2", "nanosleep", "clock_nanosleep"),
    # memory and threads
    *("brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "membarrier", "futex", "set_robust_list"),
    *("set_tid_address", "rseq", "sched_yield", "sched_getaffinity", "getcpu", "gettid", "arch_prctl"),
    # signals to itself, time, facts about itself, and the end
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall", "clock_gettime"),
    *("clock_getres", "gettimeofday", "time", "times", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid"),
    *("uname", "sysinfo", "getrusage", "getrlimit", "getrandom", "exit", "exit_group"),
)
ABSENT = ("clone3", "openat2", "futex_waitv", "pkey_alloc")
"""Answered with ENOSYS. clone3 and openat2 keep their flags behind a pointer, which a filter cannot follow."""
NOT_A_LINK = ("readlink", "readlinkat")
"""Answered with EINVAL, as for a file that is no symbolic link, so that realpath works and links tell nothing."""

WRITING = os.O_WRONLY | os.O_RDWR | getattr(os, "O_CREAT", 0) | getattr(os, "O_TRUNC", 0)
BEYOND_READING = WRITING | getattr(os, "O_APPEND", 0) | getattr(os, "O_PATH", 0) | getattr(os, "O_ASYNC", 0)
CLONE_THREAD, CLONE_OF_LIBRARIES = 0x00010000, 0x007D0F00
"""The flag of a thread; every flag that glibc and musl set for one (pthread_create)."""
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC: neither locks, leases, owners nor pipe sizes."""
IOCTL_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX."""
PRCTL_OPTIONS = (15, 16, 0x53564D41)
"""PR_SET_NAME, PR_GET_NAME, PR_SET_VMA: names of threads and of memory."""
RLIMIT_CPU, AF_UNIX, SOCK_STREAM, SOCK_TYPE_MASK = 0, 1, 1, 0xF
X32_BIT = 0x40000000
"""With this bit x86 numbers its calls in another way."""

SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
LOAD, AND, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x54, 0x15, 0x25, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""Where struct seccomp_data has them; both architectures are little-endian, so an argument's low half comes first."""


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _fail_with(number: int) -> bytes:
    return _instruction(RETURN, 0x00050000 | number)


ALLOW, REFUSE = _instruction(RETURN, 0x7FFF0000), _fail_with(errno.EPERM)


def install() -> str | None:
    """Put the filter on every thread of this process, for good; why that was not possible, if it was not.

    PR_SET_NO_NEW_PRIVS must be set before.
    """
    architecture = find_architecture()
    if architecture is None:
        return "there is no seccomp filter for this processor"
    program = build_program(architecture, os.getpid())
    steps = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    number = architecture.numbers["seccomp"]
    answer = open_libc().syscall(number, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, header)
    if answer == 0:
        return None
    reason = describe_error() if answer < 0 else f"thread {answer} could not be included"
    return f"the seccomp filter could not be installed: {reason}"


def prepare() -> None:
    """Build the part of the filter that is the same for every process."""
    if (architecture := find_architecture()) is not None:
        _first_part(architecture)


def build_program(architecture: Architecture, pid: int) -> bytes:
    """The filter for one process, which alone it may signal, or it could not abort."""
    signals = [_rule(architecture, name, _one_of(0, (pid,))) for name in ("kill", "tgkill", "tkill")]
    return b"".join([*_first_part(architecture), *signals, REFUSE])


@cache  # by the fork server, once for all its children
def _first_part(architecture: Architecture) -> tuple[bytes, ...]:
    steps = [
        _instruction(LOAD, ARCHITECTURE_OFFSET),
        _instruction(JUMP_EQUAL, architecture.audit, 1, 0),
        REFUSE,
        _instruction(LOAD, NUMBER_OFFSET),
        _instruction(JUMP_AT_LEAST, X32_BIT, 0, 1),
        REFUSE,
        _instruction(JUMP_GREATER, architecture.newest, 0, 1),
        _fail_with(errno.ENOSYS),
    ]
    steps += [_rule(architecture, name, ALLOW) for name in ALLOWED]
    steps += [_rule(architecture, name, _fail_with(errno.ENOSYS)) for name in ABSENT]
    steps += [_rule(architecture, name, _fail_with(errno.EINVAL)) for name in NOT_A_LINK]
    steps += [_rule(architecture, name, rule) for name, rule in _rules_for_arguments().items()]
    return tuple(steps)


def _rules_for_arguments() -> dict[str, bytes]:
    """What decides about calls that are allowed with some arguments only."""
    return {
        "open": _no_bits(1, BEYOND_READING),
        "openat": _no_bits(2, BEYOND_READING),
        "clone": _load(0)
        + _instruction(JUMP_ANY_BIT, 0xFFFFFFFF & ~CLONE_OF_LIBRARIES, 2, 0)
        + _instruction(JUMP_ANY_BIT, CLONE_THREAD, 0, 1)
        + ALLOW
        + REFUSE,
        "fcntl": _one_of(1, FCNTL_COMMANDS),
        "ioctl": _one_of(1, IOCTL_COMMANDS),
        "prctl": _one_of(0, PRCTL_OPTIONS),
        # its own limits may be read; only processor time may be set, which every page handed over raises
        "prlimit64": _unless_zero(0, REFUSE)
        + _load(1)
        + _instruction(JUMP_EQUAL, RLIMIT_CPU, 0, 1)
        + ALLOW
        + _unless_zero(2, REFUSE, halves=2)
        + ALLOW,
        # asynchronous native code wakes itself up with a pair of sockets; a datagram socket could reach others
        "socketpair": _load(0)
        + _instruction(JUMP_EQUAL, AF_UNIX, 1, 0)
        + REFUSE
        + _load(1)
        + _instruction(AND, SOCK_TYPE_MASK)
        + _instruction(JUMP_EQUAL, SOCK_STREAM, 0, 1)
        + ALLOW
        + REFUSE,
        "sendto": _unless_zero(4, REFUSE, halves=2) + ALLOW,
    }


def _rule(architecture: Architecture, name: str, decision: bytes) -> bytes:
    """Decide about one call; nothing where the architecture does not have it."""
    number = architecture.numbers.get(name)
    if number is None:
        return b""
    return _instruction(JUMP_EQUAL, number, 0, len(decision) // 8) + decision


def _load(argument: int, half: int = 0) -> bytes:
    return _instruction(LOAD, ARGUMENTS_OFFSET + 8 * argument + 4 * half)


def _one_of(argument: int, values: tuple[int, ...]) -> bytes:
    allowed = b"".join(_instruction(JUMP_EQUAL, value, 0, 1) + ALLOW for value in values)
    return _load(argument) + allowed + REFUSE


def _no_bits(argument: int, mask: int) -> bytes:
    return _load(argument) + _instruction(JUMP_ANY_BIT, mask, 0, 1) + REFUSE + ALLOW


def _unless_zero(argument: int, decision: bytes, halves: int = 1) -> bytes:
    steps = (_load(argument, half) + _instruction(JUMP_EQUAL, 0, 1, 0) + decision for half in range(halves))
    return b"".join(steps)
