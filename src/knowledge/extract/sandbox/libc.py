"""The C library, through which Python makes system calls that it has no functions for."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache


@cache
def open_libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(f"libc is used on Linux only, not on {sys.platform}")
    return ctypes.CDLL(None, use_errno=True)


def describe_errno() -> str:
    return os.strerror(ctypes.get_errno())
