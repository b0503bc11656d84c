"""The table of contents of an electronic book, in the form of EPUB 3 or of EPUB 2."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.safe_xml import local

NCX = "application/x-dtbncx+xml"


def contents(archive: zipfile.ZipFile, package: Element, folder: str) -> dict[str, str]:
    """The title of each chapter, by its member; a book whose contents are missing or broken has none."""
    titles: dict[str, str] = {}
    for item in package.iter():
        new = local(item.tag) == "item" and "nav" in item.get("properties", "").split()
        if new or item.get("media-type") == NCX:
            path = _joined(folder, item.get("href", ""))
            for href, title in _entries(archive, path, new):
                titles.setdefault(_joined(posixpath.dirname(path), href), title)
    return titles


def _joined(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _entries(archive: zipfile.ZipFile, path: str, new: bool) -> Iterator[tuple[str, str]]:
    try:
        root = safe_xml.parse(safe_xml.member(archive, path))
    except errors.Damaged:
        return
    for element in root.iter():
        name = local(element.tag)
        if new and name == "a" and (title := safe_xml.words(element)):
            yield element.get("href", ""), title
        elif name == "navPoint":
            yield from _point(element)


def _point(element: Element) -> Iterator[tuple[str, str]]:
    """One entry of EPUB 2; those below it are found by themselves."""
    parts = {local(child.tag): child for child in element}
    title = safe_xml.words(parts.get("navLabel"))
    if title and "content" in parts:
        yield parts["content"].get("src", ""), title
