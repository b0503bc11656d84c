"""Opens files below an allowed folder without path traversal, also when a symlink is swapped in between (TOCTOU).

Linux has `openat2` with RESOLVE_BENEATH for it since 5.6; elsewhere the file is opened, and where it really lies is
asked of the open descriptor before a byte of it is read.
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
"""Neither a link at the end, nor a pipe that nobody writes to, may lead us on or hold us up."""
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
OPENAT2_SYSCALL = 437
"""The number of the system call on every architecture: those added since 5.1 have one for all."""
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
UNSUPPORTED_ERRNOS = (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
"""An older kernel, or a container whose filter does not know the call."""
F_GETPATH, MAX_PATH_BYTES = 50, 1024


class PathEscaped(OSError):
    """What was opened does not lie where it was judged to lie."""


class OpenHow(ctypes.Structure):
    """`struct open_how` of linux/openat2.h."""

    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def open_beneath(root: Path, path: Path, may_lie: Callable[[Path], bool]) -> int:
    """A descriptor of the file at `path`, which is resolved already and was judged to lie below `root`.

    Since it is resolved, no part of it is a link: one that has become a link meanwhile is refused. `may_lie` judges
    where the file really lies, on systems that tell that afterwards.
    """
    return open_with_openat2(root, path) if has_openat2() else open_and_check(path, may_lie)


def open_with_openat2(root: Path, path: Path) -> int:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | CLOEXEC)
    try:
        below = os.fsencode(path.relative_to(root))
        return _openat2(folder, below, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP, errno.EAGAIN):
            raise PathEscaped(error.errno, "a part of the path has become a link") from error
        raise
    finally:
        os.close(folder)


def open_and_check(path: Path, may_lie: Callable[[Path], bool]) -> int:
    """Open, then ask where the open file lies; refused where the system cannot tell."""
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        found = find_location(descriptor, path)
        if found is None or not may_lie(found):
            raise PathEscaped(errno.EXDEV, "the file does not lie below the allowed folders")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def find_location(descriptor: int, path: Path) -> Path | None:
    """Where an open file really lies; None where that cannot be told."""
    if sys.platform == "win32":
        return _find_windows_location(descriptor)
    if sys.platform == "darwin":
        import fcntl

        found = fcntl.fcntl(descriptor, F_GETPATH, bytes(MAX_PATH_BYTES))
        return Path(os.fsdecode(found.rstrip(b"\0")))
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:  # no /proc: the path once more, and whether it is still this very file
        return _confirm_path(descriptor, path)


def _confirm_path(descriptor: int, path: Path) -> Path | None:
    """The path if it resolves to itself and names the open file: an exchange before the opening shows here."""
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
    """Whether the kernel, and whatever filters its calls, knows `openat2`."""
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
