"""Opens files below an allowed folder without path traversal, also when a symlink is swapped in between (TOCTOU).

Linux 5.6 and later have `openat2` with RESOLVE_BENEATH (man 2 openat2). Elsewhere the real path of the open descriptor
is checked before the file is read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""O_NOFOLLOW refuses a symlink as last component; O_NONBLOCK keeps a named pipe from blocking the open."""
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
OPENAT2_SYSCALL = 437  # the same on all architectures, like every system call since Linux 5.1
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
UNSUPPORTED_ERRNOS = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
"""Errors of an older kernel, or of a container whose seccomp filter does not know the call."""
F_GETPATH, MAX_PATH_BYTES = 50, 1024


class PathEscaped(OSError):
    """The opened file is outside of the allowed folders."""


class OpenHow(ctypes.Structure):
    """`struct open_how` of linux/openat2.h."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_beneath(root: Path, path: Path, is_allowed: Callable[[Path], bool]) -> int:
    """Open the file at `path`, which is resolved and below `root`, and return its descriptor.

    A resolved path has no symlinks, so a component that is a symlink now was swapped in and is refused. `is_allowed`
    checks the real path of the open file on systems without `openat2`.
    """
    return open_with_openat2(root, path) if has_openat2() else open_and_check(path, is_allowed)


def open_with_openat2(root: Path, path: Path) -> int:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | CLOEXEC)
    try:
        below = os.fsencode(path.relative_to(root))
        return _openat2(folder, below, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
            raise PathEscaped(error.errno, "a component of the path became a symlink") from error
        raise
    finally:
        os.close(folder)


def open_and_check(path: Path, is_allowed: Callable[[Path], bool]) -> int:
    """Open a file, then check its real path; refuse it if the system cannot report the path."""
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        real = find_location(descriptor, path)
        if real is None or not is_allowed(real):
            raise PathEscaped(errno.EXDEV, "the file is not below the allowed folders")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def find_location(descriptor: int, path: Path) -> Path | None:
    """Return the real path of an open file, or None if the system cannot report it."""
    if sys.platform == "win32":
        return _find_windows_location(descriptor)
    if sys.platform == "darwin":
        import fcntl

        found = fcntl.fcntl(descriptor, F_GETPATH, bytes(MAX_PATH_BYTES))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:  # no /proc is mounted
        return _confirm_path(descriptor, path)


def _confirm_path(descriptor: int, path: Path) -> Path | None:
    """Return the path if it still resolves to itself and names the open file; a swapped symlink fails here."""
    try:
        real = path.resolve(strict=True)
        same = os.path.samestat(real.lstat(), os.fstat(descriptor))
    except OSError:
        return None
    return real if same and real == path else None


def _find_windows_location(descriptor: int) -> Path | None:
    if sys.platform != "win32":
        return None
    import msvcrt

    name = ctypes.create_unicode_buffer(32768)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(descriptor))
    length = ctypes.windll.kernel32.GetFinalPathNameByHandleW(handle, name, len(name), 0)
    plain = name.value.replace("\\\\?\\UNC\\", "\\\\", 1).removeprefix("\\\\?\\")
    return Path(plain) if length else None


@cache
def has_openat2() -> bool:
    """Whether the kernel and the process's seccomp filter allow `openat2`."""
    if not sys.platform.startswith("linux"):
        return False
    folder = os.open("/", os.O_RDONLY | os.O_DIRECTORY | CLOEXEC)
    try:
        os.close(_openat2(folder, b".", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS))
    except OSError as error:
        return error.errno not in UNSUPPORTED_ERRNOS
    finally:
        os.close(folder)
    return True


def _openat2(folder: int, below: bytes, resolve: int) -> int:
    how = OpenHow(OPEN_FLAGS | CLOEXEC, 0, resolve)
    call = ctypes.CDLL(None, use_errno=True).syscall
    descriptor = call(
        ctypes.c_long(OPENAT2_SYSCALL),
        ctypes.c_int(folder),
        ctypes.c_char_p(below),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(below))
    return int(descriptor)
