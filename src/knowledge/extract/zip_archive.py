"""Opens ZIP archives after checking the number of members, the unpacked size and the compression ratio."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import BinaryIO

from knowledge import errors
from knowledge.extract.base import Source


def replace_members(source: Source, changed: Mapping[str, bytes]) -> Source:
    """Return the archive with changed members appended; the others are not recompressed."""
    buffer = io.BytesIO(source.read())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.filelist = [part for part in archive.filelist if part.filename not in changed]
        for name, data in changed.items():
            archive.NameToInfo.pop(name, None)
            archive.writestr(name, data)
    return replace(source, content=buffer.getvalue())


MAX_MEMBERS = 20_000
MAX_COMPRESSION_RATIO = 400
RATIO_CHECK_BYTES = 32 << 20
"""Unpacked size from which the ratio of a member is checked."""
MEMBER_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    OSError,
    EOFError,
    RuntimeError,  # encrypted
    NotImplementedError,  # unknown compression method
    ValueError,
    struct.error,
)
"""Exceptions of zipfile for a damaged, encrypted or unsupported member."""
END_SIGNATURE, END_SIGNATURE_64, ENTRY_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06", b"PK\x01\x02"
END_RECORD, END_RECORD_64 = struct.Struct("<4s8xL6x"), struct.Struct("<4s36xQ8x")
"""End of central directory record and its ZIP64 form, each with the size of the directory."""
LOCATOR_64_BYTES = 20
MAX_COMMENT_BYTES = 1 << 16
ENTRY = struct.Struct("<4s24xHHH12x")
"""Central directory header: signature, and the lengths of name, extra field and comment."""


def open_archive(source: Source) -> zipfile.ZipFile:
    with source.open() as file:
        refuse_many_members(file)
    try:
        archive = zipfile.ZipFile(source.path if source.content is None else io.BytesIO(source.content))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise errors.Damaged(f"The ZIP container is damaged: {error}", filename=source.filename) from error
    try:
        refuse_zip_bomb(archive, source)
    except errors.KnowledgeError:
        archive.close()
        raise
    return archive


def refuse_many_members(file: BinaryIO) -> None:
    """Raise ParserTooBig by counting directory entries, before zipfile creates an object for each of them."""
    size = file.seek(0, io.SEEK_END)
    tail_start = max(0, size - END_RECORD.size - MAX_COMMENT_BYTES - END_RECORD_64.size - LOCATOR_64_BYTES)
    file.seek(tail_start)
    tail = file.read()
    end = tail.rfind(END_SIGNATURE)
    if end < 0 or len(tail) - end < END_RECORD.size:
        return
    length = END_RECORD.unpack_from(tail, end)[1]
    larger = end - LOCATOR_64_BYTES - END_RECORD_64.size
    if larger >= 0 and tail.startswith(END_SIGNATURE_64, larger):
        end, length = larger, END_RECORD_64.unpack_from(tail, larger)[1]
    start = tail_start + end - length
    if start >= 0 and _count_entries(file, start, length) > MAX_MEMBERS:
        raise _make_too_many_error()


def _count_entries(file: BinaryIO, start: int, length: int) -> int:
    """Count consecutive directory entries, stopping at MAX_MEMBERS + 1."""
    count = place = 0
    while place < length and count <= MAX_MEMBERS:
        file.seek(start + place)
        entry = file.read(ENTRY.size)
        if len(entry) < ENTRY.size or not entry.startswith(ENTRY_SIGNATURE):
            break
        _, name, extra, comment = ENTRY.unpack(entry)
        place += ENTRY.size + name + extra + comment
        count += 1
    return count


def _make_too_many_error() -> errors.ParserTooBig:
    return errors.ParserTooBig(f"The archive holds more than {MAX_MEMBERS} files", limit=MAX_MEMBERS)


def refuse_zip_bomb(archive: zipfile.ZipFile, source: Source) -> None:
    members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS:
        raise _make_too_many_error()
    if unpacked > source.max_unpacked_bytes:
        raise errors.ParserTooBig(
            f"The archive unpacks to {unpacked >> 20} MB; the limit is {source.max_unpacked_bytes >> 20} MB",
            unpacked_bytes=unpacked,
            limit_bytes=source.max_unpacked_bytes,
        )
    for member in members:
        if member.file_size > RATIO_CHECK_BYTES and member.file_size > MAX_COMPRESSION_RATIO * max(
            1, member.compress_size
        ):
            raise errors.ParserTooBig(
                f"A member of the archive is compressed more than {MAX_COMPRESSION_RATIO}:1, like a zip bomb",
                member=member.filename[:200],
                unpacked_bytes=member.file_size,
            )
