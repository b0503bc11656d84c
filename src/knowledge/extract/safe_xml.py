"""XML from strangers: without entities of its own making, and never larger than its archive was allowed to be."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile

from knowledge import errors
from knowledge.extract.zip_archive import MEMBER_ERRORS

ENTITY_DECLARATIONS = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def parse_xml(data: bytes) -> ElementTree.Element:
    if any(mark in data for mark in ENTITY_DECLARATIONS):
        raise errors.Damaged("It declares XML entities, which documents have no use for")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise errors.Damaged(f"Its XML is broken: {error}") from error


def read_member(archive: zipfile.ZipFile, name: str, max_bytes: int | None = None) -> bytes:
    """The first bytes of one member, or as many as the archive's directory declared and was measured by."""
    try:
        with archive.open(name) as file:
            return file.read(max_bytes or archive.getinfo(name).file_size)
    except KeyError:
        raise errors.Damaged(f"Its part {name[:100]} is missing") from None
    except MEMBER_ERRORS as error:
        raise errors.Damaged(f"Its part {name[:100]} is damaged: {error}") from error


def local_name(tag: str) -> str:
    """A tag without its namespace."""
    return tag.rpartition("}")[2]


def read_words(element: ElementTree.Element | None) -> str | None:
    """The text of an element as one line."""
    return " ".join("".join(element.itertext()).split()) or None if element is not None else None
