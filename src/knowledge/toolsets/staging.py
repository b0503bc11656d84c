"""Where parts of files lie until they are whole: a folder of this process alone, with names of our own making."""

from __future__ import annotations

import base64
import binascii
import secrets
import shutil
import threading
from pathlib import Path
from uuid import UUID

from filelock import FileLock, Timeout

from knowledge.errors import InvalidParameter, StorageFailed
from knowledge.store.file_modes import FILE_MODE, make_folder, private_opener

LOCK = ".lock"


class Staging:
    """Made when the first part arrives. Its lock tells other processes that somebody still needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / secrets.token_hex(8)
        self._lock: FileLock | None = None
        self._opening = threading.Lock()

    def path(self, upload: UUID, index: int) -> Path:
        return self._own / upload.hex / f"{index}.part"

    def write(self, upload: UUID, index: int, piece: bytes) -> None:
        """Whole or not at all: a part that fails leaves the one before it."""
        target = self.path(upload, index)
        beside = target.with_suffix(".new")
        try:
            self._open()
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with open(beside, "wb", opener=private_opener) as file:
                file.write(piece)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageFailed(f"The part cannot be kept: {error.strerror or 'the disk refuses it'}") from error

    def remove(self, upload: UUID) -> None:
        shutil.rmtree(self._own / upload.hex, ignore_errors=True)

    def sweep(self) -> None:
        """Remove what processes that are gone have left."""
        if not self._folder.is_dir():
            return
        for lock_path in self._folder.glob(f"*{LOCK}"):
            _sweep(lock_path)

    def close(self) -> None:
        shutil.rmtree(self._own, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
            self._own.with_suffix(LOCK).unlink(missing_ok=True)
            self._lock = None

    def _open(self) -> None:
        with self._opening:
            if self._lock is not None:
                return
            make_folder(self._folder)
            # A lock file that merely exists would outlive a killed process; only a real lock will do.
            lock = FileLock(
                self._own.with_suffix(LOCK), timeout=5, mode=FILE_MODE, thread_local=False, fallback_to_soft=False
            )
            lock.acquire()
            self._own.mkdir(mode=0o700, exist_ok=True)
            self._lock = lock


def _sweep(lock_path: Path) -> None:
    lock = FileLock(lock_path, timeout=0, mode=FILE_MODE, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except (Timeout, OSError):  # its process lives, or it is not ours to touch
        return
    try:
        shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
    finally:
        lock.release()
    lock_path.unlink(missing_ok=True)


def decode(data: str, index: int) -> bytes:
    """Strict base64: nothing is skipped, so nothing is lost unseen."""
    try:
        piece = base64.b64decode(data.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        piece = b""
    if not piece:
        raise InvalidParameter(
            f"Part {index} is not base64",
            hint="Encode the bytes in the standard alphabet, with padding and without line breaks.",
            parameter="data",
            chunk_index=index,
        )
    return piece
