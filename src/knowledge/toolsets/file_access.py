"""Opens files that a caller names by path, only below the allowed folders (path traversal protection)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from knowledge.errors import AccessDenied, FileNotFound, InvalidParameter, TooLarge
from knowledge.filesystem import open_beneath
from knowledge.model import Content

READ_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """The folders that files may be opened in; resolves links and `..` before comparing a path with them."""

    allowed: tuple[Path, ...] | None = None
    """None allows every file that the user can read."""
    private: tuple[Path, ...] = ()
    """Files of the server below an allowed folder, which tools must not read."""

    @classmethod
    def from_setting(cls, setting: str, default: Sequence[Path], private: Sequence[Path] = ()) -> AllowedFolders:
        """Parse a list of folders separated by os.pathsep; use the default if it is empty."""
        listed = [Path(part).expanduser() for part in setting.split(os.pathsep) if part.strip()]
        return cls(
            tuple(folder.resolve() for folder in listed or default), tuple(path.resolve() for path in private)
        )  # fmt: skip

    def resolve(self, given: str) -> Path:
        """Return the real path; raise AccessDenied if it is private or outside the allowed folders."""
        try:
            path = Path(given).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise FileNotFound(f"File not found: {given}", file_path=given) from error
        if self._is_private(path):
            raise AccessDenied(f"Access denied: {given}", hint="The file is private to the server.", file_path=given)
        if self.allowed is not None and self._find_root(path) is None:
            raise AccessDenied(f"Access denied: {given} is outside the allowed folders", file_path=given)
        return path

    def open(self, path: Path) -> int:
        """Open a resolved path relative to its allowed folder.

        A symbolic link that is swapped in after `resolve` (TOCTOU race) cannot lead out of the folder.
        """
        if self.allowed is None:
            return os.open(path, open_beneath.OPEN_FLAGS)
        root = self._find_root(path)
        if root is None:
            raise open_beneath.PathEscaped(errno.EXDEV, "the file is outside the allowed folders")
        return open_beneath.open_beneath(root, path, self._is_allowed)

    def _is_allowed(self, path: Path) -> bool:
        return self._find_root(path) is not None and not self._is_private(path)

    def _find_root(self, path: Path) -> Path | None:
        """Return the allowed folder that contains a path."""
        return next((folder for folder in self.allowed or () if path.is_relative_to(folder)), None)

    def _is_private(self, path: Path) -> bool:
        return any(path == place or place in path.parents for place in self.private)


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that passed all checks; its content can be read once."""

    path: Path
    size: int
    content: Content


def reject_web_address(file_path: str, hint: str) -> None:
    """Raise InvalidParameter for an http or https URL; the hint names the call that adds web pages."""
    if file_path.strip().lower().startswith(("http://", "https://")):
        raise InvalidParameter(
            "Invalid value for 'file_path': must be the path of a file, not a web address",
            hint=hint,
            parameter="file_path",
        )


@asynccontextmanager
async def open_file(given: str, folders: AllowedFolders, max_bytes: int) -> AsyncIterator[OpenFile]:
    """Open a file after checking its folder, existence and size, in this order."""
    path, file = await anyio.to_thread.run_sync(_open_path, given, folders)
    with file:
        yield OpenFile(
            path, size := _check_size(file.fileno(), given, max_bytes), Content(partial(_read_chunks, file, size))
        )


def _open_path(given: str, folders: AllowedFolders) -> tuple[Path, BinaryIO]:
    path = folders.resolve(given)
    try:
        return path, _to_stream(folders.open(path))
    except open_beneath.PathEscaped as error:
        raise AccessDenied(f"Access denied: {given} changed while it was opened", file_path=given) from error
    except PermissionError as error:
        raise AccessDenied(
            f"Access denied: {given} cannot be read",
            hint="Grant read permission to the user that runs the server.",
            file_path=given,
        ) from error
    except (OSError, ValueError) as error:
        raise FileNotFound(f"File not found: {given}", file_path=given) from error


def _to_stream(descriptor: int) -> BinaryIO:
    try:
        return os.fdopen(descriptor, "rb")
    except OSError:  # a directory
        os.close(descriptor)
        raise


def _check_size(descriptor: int, given: str, max_bytes: int) -> int:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise FileNotFound(f"File not found: {given} is not a file", file_path=given)
    if facts.st_size > max_bytes:
        raise TooLarge(
            f"File size ({to_megabytes(facts.st_size)} MB) exceeds maximum allowed size ({to_megabytes(max_bytes)} MB)",
            max_size_mb=to_megabytes(max_bytes), file_size_mb=to_megabytes(facts.st_size),
        )  # fmt: skip
    return facts.st_size


async def _read_chunks(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """Yield at most `size` bytes, so a file that grows after the size check stays within the limit."""
    file.seek(0)
    while size > 0 and (piece := await anyio.to_thread.run_sync(file.read, min(READ_CHUNK_BYTES, size))):
        size -= len(piece)
        yield piece


def to_megabytes(size: int) -> int | float:
    """Convert bytes to MB with two decimals; return an int for whole numbers."""
    value = round(size / (1 << 20), 2)
    return int(value) if value == int(value) else value
