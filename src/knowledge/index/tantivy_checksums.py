"""tantivy ends each of its files with a checksum. Whether one is there is looked at when an index is opened; whether it
is right, which means to read everything, when somebody asks for a proof."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.index.files import Damaged

COMPONENTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
TAIL = struct.Struct("<II")
MAGIC = 1337
LONGEST = 1 << 16
PIECE = 1 << 20


def require(folder: Path) -> None:
    """Every file of every segment is there and has its end."""
    for path in segment_files(folder):
        footer(path)


def damaged(folder: Path) -> Iterator[str]:
    """The files whose bytes are not the ones that were written; a merge may take one away while we look."""
    for path in segment_files(folder):
        try:
            crc, size = footer(path)
            right = checksum(path, size) == crc
        except (Damaged, OSError):
            right = False
        if not right and path in set(segment_files(folder)):
            yield path.name


def segment_files(folder: Path) -> list[Path]:
    try:
        segments = json.loads((folder / "meta.json").read_bytes())["segments"]
        names = [segment["segment_id"].replace("-", "") for segment in segments]
    except (OSError, ValueError, KeyError) as error:
        raise Damaged("The list of the words' files cannot be read") from error
    return [folder / f"{name}.{component}" for name in names for component in COMPONENTS]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of the words, in the order in which a searcher counts them."""

    passages: int
    deleted: int


def segments(folder: Path) -> list[Segment]:
    """What tantivy says about its segments; empty where it cannot be read."""
    try:
        listed = json.loads((folder / "meta.json").read_bytes())["segments"]
        deleted = [(each["deletes"] or {}).get("num_deleted_docs", 0) for each in listed]
        return [Segment(int(each["max_doc"]), int(gone)) for each, gone in zip(listed, deleted, strict=True)]
    except (OSError, ValueError, KeyError):
        return []


def footer(path: Path) -> tuple[int, int]:
    """The checksum that a file should have, and over how many bytes."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL.size))
            length, magic = TAIL.unpack(file.read(TAIL.size))
            if magic != MAGIC or length > min(LONGEST, size - TAIL.size):
                raise Damaged(f"{path.name} has lost its end")
            content = size - TAIL.size - length
            file.seek(content)
            return int(json.loads(file.read(length))["crc"]), content
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise Damaged(f"{path.name} cannot be read") from error


def checksum(path: Path, size: int) -> int:
    crc = 0
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(PIECE, size))):
            crc, size = zlib.crc32(piece, crc), size - len(piece)
    return crc
