"""ZIP archives of documents: lists and unpacks members for the engine, or reads them as the parts of one document."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from knowledge import errors
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.zip_archive import MEMBER_ERRORS, open_archive

MAX_DOCUMENTS = 1000
IGNORED_PREFIXES = ("__MACOSX/", ".")
READ_CHUNK_BYTES = 1 << 20
MAX_NAME_CHARS = 4096
"""PATH_MAX of Linux."""
ENCRYPTED_FLAG = 0x1


@dataclass(frozen=True, slots=True)
class BundleMember:
    """One document inside an archive."""

    name: str
    """Sanitised path (see to_safe_name); never opened."""
    info: zipfile.ZipInfo


@dataclass(frozen=True, slots=True)
class BundleContents:
    members: tuple[BundleMember, ...]
    skipped: tuple[str, ...]
    """Names of unsupported files, of nested archives, and of documents beyond MAX_DOCUMENTS."""


def list_contents(archive: zipfile.ZipFile) -> BundleContents:
    """List the supported documents of an archive; raises NoText if it has none, NeedsPassword if it is encrypted."""
    members: list[BundleMember] = []
    skipped: list[str] = []
    for info in archive.infolist():
        name = to_safe_name(info.filename)
        if info.is_dir() or name is None or info.file_size == 0:
            continue
        if info.flag_bits & ENCRYPTED_FLAG:
            raise errors.NeedsPassword("The archive is protected with a password")
        if _is_readable(name) and len(members) < MAX_DOCUMENTS:
            members.append(BundleMember(name, info))
        else:
            skipped.append(name)
    if not members:
        raise errors.NoText("The archive contains no document in a supported format", skipped=[*skipped[:20]])
    return BundleContents(tuple(members), tuple(skipped))


def read_members(source: Source) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name and the byte chunks of each document; the chunks must be consumed before the next document."""
    with open_archive(source) as archive:
        for member in list_contents(archive).members:
            yield member.name, _read_chunks(archive, member)


def _read_chunks(archive: zipfile.ZipFile, member: BundleMember) -> Iterator[bytes]:
    """Yield the bytes of a member, at most its declared size."""
    left = member.info.file_size
    try:
        with archive.open(member.info) as file:
            while left > 0 and (piece := file.read(min(READ_CHUNK_BYTES, left))):
                left -= len(piece)
                yield piece
    except MEMBER_ERRORS as error:
        raise errors.Damaged(f"{member.name} is damaged: {error}", filename=member.name) from error


def to_safe_name(name: str) -> str | None:
    """Return the path without `..` and roots (protects against Zip Slip), or None for hidden files."""
    if len(name) > MAX_NAME_CHARS:
        return None
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part not in ("/", "..", ".")]
    if not parts or any(part.startswith(IGNORED_PREFIXES) for part in parts) or "__MACOSX" in parts:
        return None
    return "/".join(parts)


def _is_readable(name: str) -> bool:
    from knowledge.extract.formats import FORMATS_BY_SUFFIX

    found = FORMATS_BY_SUFFIX.get(PurePosixPath(name).suffix.lower())
    return found is not None and found.doc_type != "zip"


def extract(source: Source, doc_type: str) -> Extraction:
    archive = open_archive(source)
    found = list_contents(archive)
    return Extraction(Facts(doc_type, page_count=len(found.members)), _read_pages(archive, found, source))


def _read_pages(archive: zipfile.ZipFile, found: BundleContents, source: Source) -> Iterator[PageText]:
    with archive:
        for number, member in enumerate(found.members, start=1):
            try:
                content = b"".join(_read_chunks(archive, member))
                yield from _read_member_pages(replace(source, filename=member.name, content=content), number)
            except errors.KnowledgeError as error:
                yield PageText("", number, warning=f"{member.name} could not be read: {error}")


def _read_member_pages(source: Source, number: int) -> Iterator[PageText]:
    from knowledge.extract.formats import extract as extract_one

    title = f"# {source.filename}\n\n"
    for page in extract_one(source).pages:
        yield replace(page, text=title + page.text, number=number, outline=())
        title = ""
