"""A zip of documents: many documents, which the engine adds one by one; read as one it has a part for each."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from knowledge import errors
from knowledge.extract.archive import UNREADABLE_MEMBER, open_archive
from knowledge.extract.base import Extracted, Facts, PageText, Source

MOST = 1000
"""Documents in one archive."""
FURNITURE = ("__MACOSX/", ".")
PIECE = 1 << 20
LONGEST_NAME = 4096
"""Characters of a member's path: no operating system has longer ones."""
LOCKED = 0x1
"""The flag of a member that needs a password."""


@dataclass(frozen=True, slots=True)
class Member:
    """One document inside an archive."""

    name: str
    """Its path inside, with forward slashes and nothing that leads out; it is never opened."""
    info: zipfile.ZipInfo


@dataclass(frozen=True, slots=True)
class Contents:
    members: tuple[Member, ...]
    skipped: tuple[str, ...]
    """Files of kinds that are not read, and archives within the archive."""


def contents(archive: zipfile.ZipFile) -> Contents:
    """What an archive holds that can be read; NoText when that is nothing, NeedsPassword when it is locked."""
    members: list[Member] = []
    skipped: list[str] = []
    for info in archive.infolist():
        name = safe_name(info.filename)
        if info.is_dir() or name is None or info.file_size == 0:
            continue
        if info.flag_bits & LOCKED:
            raise errors.NeedsPassword("The archive is protected with a password")
        if _readable(name) and len(members) < MOST:
            members.append(Member(name, info))
        else:
            skipped.append(name)
    if not members:
        raise errors.NoText("The archive holds no document that can be read", skipped=[*skipped[:20]])
    return Contents(tuple(members), tuple(skipped))


def members(source: Source) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Each document of an archive: its name, and its bytes piece by piece, to be read before the next is asked for."""
    with open_archive(source) as archive:
        for member in contents(archive).members:
            yield member.name, _pieces(archive, member)


def _pieces(archive: zipfile.ZipFile, member: Member) -> Iterator[bytes]:
    """Never more than the archive declared."""
    left = member.info.file_size
    try:
        with archive.open(member.info) as file:
            while left > 0 and (piece := file.read(min(PIECE, left))):
                left -= len(piece)
                yield piece
    except UNREADABLE_MEMBER as error:
        raise errors.Damaged(f"{member.name} is damaged: {error}", filename=member.name) from error


def safe_name(name: str) -> str | None:
    """A path that stays inside, or None for what is no document: hidden files and those of the packing program."""
    if len(name) > LONGEST_NAME:
        return None
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    if not parts or any(part.startswith(FURNITURE) for part in parts) or "__MACOSX" in parts:
        return None
    return "/".join(parts)


def _readable(name: str) -> bool:
    from knowledge.extract.formats import BY_SUFFIX

    found = BY_SUFFIX.get(PurePosixPath(name).suffix.lower())
    return found is not None and found.doc_type != "zip"


def extract(source: Source, doc_type: str) -> Extracted:
    archive = open_archive(source)
    found = contents(archive)
    return Extracted(Facts(doc_type, page_count=len(found.members)), _pages(archive, found, source))


def _pages(archive: zipfile.ZipFile, found: Contents, source: Source) -> Iterator[PageText]:
    with archive:
        for number, member in enumerate(found.members, start=1):
            try:
                content = b"".join(_pieces(archive, member))
                yield from _member(replace(source, filename=member.name, content=content), number)
            except errors.KnowledgeError as error:
                yield PageText("", number, warning=f"{member.name} could not be read: {error}")


def _member(source: Source, number: int) -> Iterator[PageText]:
    from knowledge.extract.formats import extract as extract_one

    title = f"# {source.filename}\n\n"
    for page in extract_one(source).pages:
        yield replace(page, text=title + page.text, number=number)
        title = ""
