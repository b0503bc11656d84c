"""A Linux child gives up the system calls that no parser needs: sockets, programs, processes, changes to files.

A pair of sockets within the process stays allowed, because asynchronous native code wakes itself up with one.
The filter is a small BPF program that the kernel runs on each system call. It needs no privileges. Whatever it does not
name stays allowed; what it names fails with EPERM, which every parser reports as an ordinary error.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
LOAD, EQUAL, AT_LEAST, ANY_BIT, ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
"""BPF: load a word, jump if equal, if at least, if any bit is set, answer."""
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
"""Let it pass; fail with EPERM; fail with ENOSYS, so that the C library takes its older road."""
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Where the kernel puts them in what the filter sees."""
WRITING = os.O_WRONLY | os.O_RDWR | getattr(os, "O_CREAT", 0) | getattr(os, "O_TRUNC", 0)
CLONE_THREAD = 0x00010000
FOREIGN = 0x40000000
"""From here on x86 numbers its calls in another way; nobody needs that."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The numbers of the system calls on one kind of processor."""

    architecture: int
    refused: tuple[int, ...]
    unknown: tuple[int, ...]
    """clone3 and openat2 hide their flags behind a pointer, which a filter cannot follow."""
    open: int | None
    openat: int
    clone: int
    signals: tuple[int, ...]
    """kill and tgkill: to itself a process may send what it likes, or it could not abort."""


X86_64 = Calls(
    architecture=0xC000003E,
    # socket, ptrace, process_vm_readv/writev, fork, vfork, execve, execveat, truncate, rename, mkdir,
    # rmdir, creat, link, unlink, symlink, chmod, chown, lchown, mknod, mount, umount2, the *at kin, io_uring_setup,
    # bpf, tkill, rt_sigqueueinfo, pidfd_send_signal
    refused=(
        *(41, 101, 310, 311, 57, 58, 59, 322, 76, 82, 83, 84, 85, 86, 87, 88, 90, 92, 94, 133, 165, 166),
        *(258, 259, 260, 263, 264, 265, 266, 268, 316, 425, 321, 200, 129, 424),
    ),
    unknown=(435, 437),
    open=2,
    openat=257,
    clone=56,
    signals=(62, 234),
)
AARCH64 = Calls(
    architecture=0xC00000B7,
    # socket, ptrace, process_vm_readv/writev, execve, execveat, truncate, renameat, mkdirat, unlinkat,
    # symlinkat, linkat, mknodat, fchmodat, fchownat, renameat2, mount, umount2, io_uring_setup, bpf, tkill,
    # rt_sigqueueinfo, pidfd_send_signal
    refused=(
        *(198, 117, 270, 271, 221, 281, 45, 38, 34, 35, 36, 37, 33, 53, 54, 276, 40, 39, 425, 280),
        *(130, 138, 424),
    ),
    unknown=(435, 437),
    open=None,
    openat=56,
    clone=220,
    signals=(129, 131),
)
MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}
HERE = MACHINES.get(platform.machine())


def lock() -> bool:
    """Put the filter on this process, for good; False where the platform has none."""
    if HERE is None or struct.calcsize("P") != 8:
        return False
    program = _program(HERE)
    steps = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
    libc = ctypes.CDLL(None)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter_, 0, 0) == 0)


def _program(calls: Calls) -> bytes:
    steps = [_load(ARCHITECTURE), _jump(EQUAL, calls.architecture, 1, 0), _answer(REFUSE), _load(NUMBER)]
    steps += [_jump(AT_LEAST, FOREIGN, 0, 1), _answer(REFUSE)]
    for number in calls.refused:
        steps += [_jump(EQUAL, number, 0, 1), _answer(REFUSE)]
    for number in calls.unknown:
        steps += [_jump(EQUAL, number, 0, 1), _answer(UNKNOWN)]
    steps += _argument(calls.clone, 0, _jump(ANY_BIT, CLONE_THREAD, 1, 0))
    for number in calls.signals:
        steps += _argument(number, 0, _jump(EQUAL, os.getpid(), 1, 0))
    steps += _argument(calls.openat, 2, _jump(ANY_BIT, WRITING, 0, 1))
    if calls.open is not None:
        steps += _argument(calls.open, 1, _jump(ANY_BIT, WRITING, 0, 1))
    return b"".join([*steps, _answer(ALLOW)])


def _argument(number: int, index: int, jump: bytes) -> list[bytes]:
    """Refuse a call by one of its arguments; the jump skips the refusal."""
    return [_jump(EQUAL, number, 0, 4), _load(ARGUMENTS + 8 * index), jump, _answer(REFUSE), _answer(ALLOW)]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", LOAD, 0, 0, offset)


def _jump(kind: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", kind, if_true, if_false, value)


def _answer(action: int) -> bytes:
    return struct.pack("HBBI", ANSWER, 0, 0, action)
