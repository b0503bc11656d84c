"""EPUB: one page per chapter in spine order, with headings from the table of contents."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.safe_xml import local_name, read_member
from knowledge.extract.web.html import convert_fragment
from knowledge.extract.zip_archive import open_archive
from knowledge.model import Json

NCX_MEDIA_TYPE = "application/x-dtbncx+xml"


def read_table_of_contents(archive: zipfile.ZipFile, package: Element, folder: str) -> dict[str, str]:
    """Return chapter titles by archive member, from the EPUB 3 navigation document or the EPUB 2 NCX."""
    titles: dict[str, str] = {}
    for item in package.iter():
        new = local_name(item.tag) == "item" and "nav" in item.get("properties", "").split()
        if new or item.get("media-type") == NCX_MEDIA_TYPE:
            path = _resolve_href(folder, item.get("href", ""))
            for href, title in _read_entries(archive, path, new):
                titles.setdefault(_resolve_href(posixpath.dirname(path), href), title)
    return titles


def _resolve_href(folder: str, href: str) -> str:
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))


def _read_entries(archive: zipfile.ZipFile, path: str, new: bool) -> Iterator[tuple[str, str]]:
    try:
        root = safe_xml.parse_xml(safe_xml.read_member(archive, path))
    except errors.Damaged:
        return
    for element in root.iter():
        name = local_name(element.tag)
        if new and name == "a" and (title := safe_xml.read_words(element)):
            yield element.get("href", ""), title
        elif name == "navPoint":
            yield from _read_nav_point(element)


def _read_nav_point(element: Element) -> Iterator[tuple[str, str]]:
    """Yield one navPoint of an NCX; nested ones are visited by the caller."""
    parts = {local_name(child.tag): child for child in element}
    title = safe_xml.read_words(parts.get("navLabel"))
    if title and "content" in parts:
        yield parts["content"].get("src", ""), title


CONTAINER, ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
CIPHER_NAMESPACE = b"http://www.w3.org/2001/04/xmlenc#"
CHAPTER_MEDIA_TYPES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "")


@dataclass(frozen=True, slots=True)
class EpubBook:
    package: Element
    folder: str
    chapters: list[str]
    """Archive members in reading order."""


def extract(source: Source, doc_type: str) -> Extraction:
    archive = open_archive(source)
    names = set(archive.namelist())
    if ENCRYPTION in names and CIPHER_NAMESPACE in read_member(archive, ENCRYPTION):
        raise errors.NeedsPassword(
            "The book is protected by DRM", hint="Add a copy without DRM.", filename=source.filename
        )
    book = _open_book(archive, names)
    if not book.chapters:
        raise errors.Damaged("The book contains none of the chapters that it lists", filename=source.filename)
    return Extraction(_read_facts(book, doc_type), _read_pages(archive, book))


def _open_book(archive: zipfile.ZipFile, names: set[str]) -> EpubBook:
    container = safe_xml.parse_xml(read_member(archive, CONTAINER))
    path = next(
        (element.get("full-path", "") for element in container.iter() if local_name(element.tag) == "rootfile"), ""
    )
    if path not in names:
        raise errors.Damaged("The package document (OPF) of the EPUB is missing")
    package = safe_xml.parse_xml(read_member(archive, path))
    folder = posixpath.dirname(path)
    found = (posixpath.normpath(posixpath.join(folder, href)) for href in _read_spine(package))
    return EpubBook(package, folder, [name for name in dict.fromkeys(found) if name in names])


def _read_spine(package: Element) -> Iterator[str]:
    """Yield the hrefs of the chapters in reading order."""
    items = {
        element.get("id"): unquote(element.get("href", ""))
        for element in package.iter()
        if local_name(element.tag) == "item" and element.get("media-type", "") in CHAPTER_MEDIA_TYPES
    }
    for element in package.iter():
        if local_name(element.tag) == "itemref" and (href := items.get(element.get("idref"))):
            yield href


def _read_pages(archive: zipfile.ZipFile, book: EpubBook) -> Iterator[PageText]:
    with archive:
        titles = read_table_of_contents(archive, book.package, book.folder)
        for number, name in enumerate(book.chapters, start=1):
            try:
                text = convert_fragment(read_member(archive, name))
                yield PageText(_add_heading(text, titles.get(name)), number)
            except errors.Damaged as error:
                yield PageText("", number, warning=f"Chapter {number} could not be read: {error}")


def _add_heading(text: str, title: str | None) -> str:
    """Add the title from the table of contents to a chapter without a heading."""
    if not title or not any(map(str.isalnum, text)) or any(line.startswith("#") for line in text.split("\n")):
        return text
    return f"# {title}\n\n{text}"


def _read_facts(book: EpubBook, doc_type: str) -> Facts:
    found: dict[str, str] = {}
    for element in book.package.iter():
        value = safe_xml.read_words(element)
        if value and len(element) == 0:
            found.setdefault(local_name(element.tag), value)
    metadata: Json = {
        name: found[key] for key, name in (("date", "created"), ("publisher", "publisher")) if key in found
    }
    if "description" in found:
        metadata["description"] = found["description"]
    return Facts(
        doc_type,
        title=found.get("title"),
        author=found.get("creator"),
        language=found.get("language"),
        page_count=len(book.chapters),
        metadata=metadata,
    )
