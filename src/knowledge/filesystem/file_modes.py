"""Creates files and folders with owner-only permissions (0600, 0700) on POSIX systems."""

from __future__ import annotations

import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS_MODE_BITS = 0o077
HAS_FILE_MODES = os.name == "posix"
STALE_DRAFT_SECONDS = 24 * 3600.0  # a draft not modified for a day was left behind by a crash


def private_opener(path: str, flags: int) -> int:
    """Opener for `open()` that creates files with mode 0600."""
    return os.open(path, flags, FILE_MODE)


def open_new_file(path: Path) -> BinaryIO:
    """Create a file for writing; fail if it exists."""
    return open(path, "xb", opener=private_opener)


def create_file(path: Path) -> None:
    """Create an empty file if it is missing, so that a library that opens it later keeps mode 0600."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, FILE_MODE))


def make_folder(folder: Path) -> None:
    """Create a folder with mode 0700; missing parents get the mode of the umask."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_private(folder: Path) -> int:
    """Remove group and other permissions from a folder and its contents; return the number of changed paths.

    The folder itself is changed last: its mode shows the next start that the contents are done.
    """
    if not HAS_FILE_MODES or not stat.S_IMODE(folder.lstat().st_mode) & OTHERS_MODE_BITS:
        return 0
    return _make_contents_private(folder) + _remove_others_access(folder, FOLDER_MODE)


def _make_contents_private(folder: Path) -> int:
    changed = 0
    for place, folders, names in os.walk(folder, followlinks=False):
        changed += sum(_remove_others_access(Path(place, name), FOLDER_MODE) for name in folders)
        changed += sum(_remove_others_access(Path(place, name), FILE_MODE) for name in names)
    return changed


def _remove_others_access(path: Path, mode: int) -> bool:
    """Set the mode of a file or folder that others may access; skip symlinks and special files."""
    try:
        mode_bits = path.lstat().st_mode
        if not stat.S_IMODE(mode_bits) & OTHERS_MODE_BITS or not (stat.S_ISREG(mode_bits) or stat.S_ISDIR(mode_bits)):
            return False
        path.chmod(mode)
    except OSError:  # removed meanwhile, or owned by another user
        return False
    return True


def sweep_drafts(folder: Path, pattern: str) -> None:
    """Remove files of unfinished backups that are older than a day."""
    for draft in folder.glob(pattern):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > STALE_DRAFT_SECONDS:
                draft.unlink()


class _Umask:
    """Sets the process's umask to 077 while an engine is open, for files that libraries create in the data folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before = 0

    def enter(self) -> None:
        with self._lock:
            before = os.umask(OTHERS_MODE_BITS)
            if not self._holders:
                self._before = before
            self._holders += 1

    def leave(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders:
                os.umask(self._before)


UMASK = _Umask()
