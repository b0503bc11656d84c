"""Runs a command on a kernel that lacks a system call, as in a container that does not permit it.

python missing_syscall.py NUMBER COMMAND...
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2


def forbid_syscall(number: int) -> None:
    steps = struct.pack("HBBI", 0x20, 0, 0, 0)
    steps += struct.pack("HBBI", 0x15, 0, 1, number) + struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | errno.ENOSYS)
    steps += struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    buffer = ctypes.create_string_buffer(steps, len(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    program = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(buffer))
    if libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the filter of the test could not be installed")


if __name__ == "__main__":
    forbid_syscall(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
