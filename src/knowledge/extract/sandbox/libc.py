"""The C library of a Linux process; the kernel's newer calls have no other name in Python."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache


@cache
def open_libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError("only Linux has the calls that are made through it")
    return ctypes.CDLL(None, use_errno=True)


def describe_errno() -> str:
    """Why the last call failed."""
    return os.strerror(ctypes.get_errno())
