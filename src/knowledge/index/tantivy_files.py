"""Reads tantivy's segment list and file footers, which hold a CRC-32 of each file.

Opening an index checks only that the footers exist; `verify` reads the files and compares the checksums.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.index.append_only_files import IndexDamaged

SEGMENT_COMPONENTS = ("fast", "fieldnorm", "idx", "pos", "store", "term")
FOOTER_TAIL = struct.Struct("<II")
FOOTER_MAGIC = 1337
MAX_FOOTER_BYTES = 1 << 16
READ_CHUNK_BYTES = 1 << 20


def require_footers(folder: Path) -> None:
    """Raise IndexDamaged if a file of a segment is missing or truncated."""
    for path in list_segment_files(folder):
        read_footer(path)


def find_damaged_files(folder: Path) -> Iterator[str]:
    """Yield the names of files with a wrong checksum, except those that a merge deletes meanwhile."""
    for path in list_segment_files(folder):
        try:
            crc, size = read_footer(path)
            right = compute_checksum(path, size) == crc
        except (IndexDamaged, OSError):
            right = False
        if not right and path in set(list_segment_files(folder)):
            yield path.name


def list_segment_files(folder: Path) -> list[Path]:
    try:
        segments = json.loads((folder / "meta.json").read_bytes())["segments"]
        names = [segment["segment_id"].replace("-", "") for segment in segments]
    except (OSError, ValueError, KeyError) as error:
        raise IndexDamaged(f"tantivy's meta.json cannot be read: {error}") from error
    return [folder / f"{name}.{component}" for name in names for component in SEGMENT_COMPONENTS]


@dataclass(frozen=True, slots=True)
class TantivySegment:
    """A segment of the tantivy index."""

    chunk_count: int
    deleted_count: int


def read_segments(folder: Path) -> list[TantivySegment]:
    """Return the segments in the order of the searcher; empty if meta.json cannot be read."""
    try:
        listed = json.loads((folder / "meta.json").read_bytes())["segments"]
        deleted = [(each["deletes"] or {}).get("num_deleted_docs", 0) for each in listed]
        return [TantivySegment(int(each["max_doc"]), int(gone)) for each, gone in zip(listed, deleted, strict=True)]
    except (OSError, ValueError, KeyError):
        return []


def read_footer(path: Path) -> tuple[int, int]:
    """Return the CRC-32 from a file's footer and the number of bytes that it covers."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - FOOTER_TAIL.size))
            length, magic = FOOTER_TAIL.unpack(file.read(FOOTER_TAIL.size))
            if magic != FOOTER_MAGIC or length > min(MAX_FOOTER_BYTES, size - FOOTER_TAIL.size):
                raise IndexDamaged(f"{path.name} is truncated")
            content = size - FOOTER_TAIL.size - length
            file.seek(content)
            return int(json.loads(file.read(length))["crc"]), content
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise IndexDamaged(f"{path.name} cannot be read: {error}") from error


def compute_checksum(path: Path, size: int) -> int:
    crc = 0
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(READ_CHUNK_BYTES, size))):
            crc, size = zlib.crc32(piece, crc), size - len(piece)
    return crc
