"""Zip archives are measured before they are opened: what they declare to hold, and how strongly it is packed."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib

from knowledge import errors
from knowledge.extract.base import Source

UNREADABLE_MEMBER = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, NotImplementedError, EOFError, OSError, ValueError
)  # fmt: skip
"""What zipfile raises for a member with a wrong header, place, method or checksum, or with a password."""
MOST_MEMBERS = 20_000
STRONGEST = 400
"""Times smaller than what comes out; more is a bomb."""
HARMLESS = 32 << 20
"""Below this size nobody counts how strongly something is packed."""


def open_archive(source: Source) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(source.path if source.content is None else io.BytesIO(source.content))
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise errors.Damaged(f"Its container is damaged: {error}", filename=source.filename) from error
    try:
        measure(archive, source)
    except errors.KnowledgeError:
        archive.close()
        raise
    return archive


def measure(archive: zipfile.ZipFile, source: Source) -> None:
    members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    if len(members) > MOST_MEMBERS:
        raise errors.ParserTooBig(f"It holds {len(members)} files", members=len(members), limit=MOST_MEMBERS)
    if unpacked > source.max_unpacked_bytes:
        raise errors.ParserTooBig(
            f"It unpacks to {unpacked >> 20} MB",
            unpacked_bytes=unpacked,
            limit_bytes=source.max_unpacked_bytes,
        )
    for member in members:
        if member.file_size > HARMLESS and member.file_size > STRONGEST * max(1, member.compress_size):
            raise errors.ParserTooBig(
                "It is packed as only a bomb is", member=member.filename[:200], unpacked_bytes=member.file_size
            )
