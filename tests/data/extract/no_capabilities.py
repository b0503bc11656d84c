"""Runs a command without capabilities, also as root: python no_capabilities.py COMMAND..."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

PR_SET_SECUREBITS, SECBIT_NOROOT = 28, 1
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

if __name__ == "__main__":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0)  # otherwise root regains them on exec
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
    os.execv(sys.argv[1], sys.argv[1:])
