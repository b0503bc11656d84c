"""The numbers of the system calls that the filter knows by name, for each kind of processor.

They are those of Linux's headers asm/unistd_64.h and asm-generic/unistd.h, and never change.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

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
    audit: int
    """The AUDIT_ARCH constant that a filter sees beside the number."""
    numbers: dict[str, int]
    newest: int = 450
    """Higher numbers are newer than this table; libraries that try one know what to do where a kernel lacks it."""


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, X86_64_NUMBERS),
    "aarch64": Architecture(0xC00000B7, AARCH64_NUMBERS),
}


def find_architecture() -> Architecture | None:
    """The table of this processor; None where there is none, also for a 32-bit program on a 64-bit kernel."""
    return ARCHITECTURES.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
