"""Parses untrusted XML: no entity declarations (billion laughs, XXE), and no more bytes than the archive declares."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
import zipfile

from knowledge import errors
from knowledge.extract.zip_archive import MEMBER_ERRORS

ENTITY_DECLARATIONS = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def parse_xml(data: bytes) -> ElementTree.Element:
    if any(mark in data for mark in ENTITY_DECLARATIONS):
        raise errors.Damaged("The XML declares entities, which is not allowed")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise errors.Damaged(f"The XML is invalid: {error}") from error


def read_member(archive: zipfile.ZipFile, name: str, max_bytes: int | None = None) -> bytes:
    """Read a member up to max_bytes or up to its declared size, which refuse_zip_bomb has checked."""
    try:
        with archive.open(name) as file:
            return file.read(max_bytes or archive.getinfo(name).file_size)
    except KeyError:
        raise errors.Damaged(f"The part {name[:100]} is missing") from None
    except MEMBER_ERRORS as error:
        raise errors.Damaged(f"The part {name[:100]} is damaged: {error}") from error


def local_name(tag: str) -> str:
    """Return a tag without its namespace."""
    return tag.rpartition("}")[2]


def read_words(element: ElementTree.Element | None) -> str | None:
    """Return the text of an element as one line, or None if it has none."""
    return " ".join("".join(element.itertext()).split()) or None if element is not None else None
