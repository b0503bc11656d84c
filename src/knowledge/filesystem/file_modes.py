"""Files that only their owner can read: the data folder, everything in it, and backups. Windows has no such modes."""

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
STALE_DRAFT_SECONDS = 24 * 3600.0
"""A draft that nobody has written to for so long was left by a process that is gone."""


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that it creates is the owner's alone."""
    return os.open(path, flags, FILE_MODE)


def open_new_file(path: Path) -> BinaryIO:
    """A file that is not there yet, to be written."""
    return open(path, "xb", opener=private_opener)


def create_file(path: Path) -> None:
    """An empty file, so that a library that opens it keeps its mode; one that is there stays as it is."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, FILE_MODE))


def make_folder(folder: Path) -> None:
    """Make a folder; its parents are made as the user's umask says."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_private(folder: Path) -> int:
    """Take others' rights away from a folder and everything in it; answers how many paths had any.

    The folder itself comes last: once it is closed nobody else reaches what is in it, and the next start need not look
    at a million files.
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
    """Whether others had rights to it; links and special files are left alone."""
    try:
        found = path.lstat()
        if not stat.S_IMODE(found.st_mode) & OTHERS_MODE_BITS or not (
            stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        ):
            return False
        path.chmod(mode)
    except OSError:  # gone meanwhile, or another user's
        return False
    return True


def sweep_drafts(folder: Path, pattern: str) -> None:
    """Remove files of an unfinished backup that nobody writes to any more."""
    for draft in folder.glob(pattern):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > STALE_DRAFT_SECONDS:
                draft.unlink()


class _Umask:
    """The process's umask while an engine is open: what libraries create in the data folder is the owner's alone."""

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
