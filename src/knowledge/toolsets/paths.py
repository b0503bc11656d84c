"""Files that a caller names by path: opened by this process, below the allowed folders, and nowhere else."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from knowledge.errors import AccessDenied, FileNotFound, TooLarge
from knowledge.model import Content

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Folders:
    """Where files may be opened."""

    allowed: tuple[Path, ...] | None = None
    """None allows whatever the user may read."""
    private: tuple[Path, ...] = ()
    """Never to be read by anybody's tool, though it lies below an allowed folder."""

    @classmethod
    def named(cls, setting: str, default: Sequence[Path], private: Sequence[Path] = ()) -> Folders:
        """The folders that a setting lists, or these."""
        listed = [Path(part).expanduser() for part in setting.split(os.pathsep) if part.strip()]
        return cls(
            tuple(folder.resolve() for folder in listed or default), tuple(path.resolve() for path in private)
        )  # fmt: skip

    def resolve(self, given: str) -> Path:
        """The real place that a path leads to; links and `..` are followed before it is judged."""
        try:
            path = Path(given).expanduser().resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise FileNotFound(f"File not found: {given}", file_path=given) from error
        if any(path == place or place in path.parents for place in self.private):
            raise AccessDenied(f"Access denied: {given}", hint="This file belongs to the server.", file_path=given)
        if self.allowed is not None and not any(path.is_relative_to(folder) for folder in self.allowed):
            raise AccessDenied(f"Access denied: {given} is outside the allowed folders", file_path=given)
        return path


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that was found fit to be read; its content can be read once."""

    path: Path
    size: int
    content: Content


@asynccontextmanager
async def open_file(given: str, folders: Folders, max_bytes: int) -> AsyncIterator[OpenFile]:
    """Judge the folder, then whether the file is there, then its size, and open it."""
    path, file = await anyio.to_thread.run_sync(_open, given, folders)
    with file:
        yield OpenFile(path, size := _size(file.fileno(), given, max_bytes), Content(partial(_pieces, file, size)))


def _open(given: str, folders: Folders) -> tuple[Path, BinaryIO]:
    path = folders.resolve(given)
    # Neither a link put there since, nor a pipe that nobody writes to, may lead us on or hold us up.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        return path, _stream(os.open(path, flags))
    except PermissionError as error:
        raise AccessDenied(
            f"Access denied: {given} cannot be read", hint="Let the server's user read it.", file_path=given
        ) from error
    except (OSError, ValueError) as error:
        raise FileNotFound(f"File not found: {given}", file_path=given) from error


def _stream(descriptor: int) -> BinaryIO:
    try:
        return os.fdopen(descriptor, "rb")
    except OSError:  # a folder
        os.close(descriptor)
        raise


def _size(descriptor: int, given: str, max_bytes: int) -> int:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise FileNotFound(f"File not found: {given} is not a file", file_path=given)
    if facts.st_size > max_bytes:
        raise TooLarge(
            f"File size ({megabytes(facts.st_size)} MB) exceeds maximum allowed size ({megabytes(max_bytes)} MB)",
            max_size_mb=megabytes(max_bytes), file_size_mb=megabytes(facts.st_size),
        )  # fmt: skip
    return facts.st_size


async def _pieces(file: BinaryIO, size: int) -> AsyncIterator[bytes]:
    """The file as long as it was when its size was judged."""
    file.seek(0)
    while size > 0 and (piece := await anyio.to_thread.run_sync(file.read, min(PIECE, size))):
        size -= len(piece)
        yield piece


def megabytes(size: int) -> int | float:
    """A size in MB as people write it: whole where it is whole."""
    value = round(size / (1 << 20), 2)
    return int(value) if value == int(value) else value
