"""Electronic books: each chapter a page, in the order of the book, with a heading from its table of contents."""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.archive import open_archive
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.epub.contents import contents
from knowledge.extract.safe_xml import local, member
from knowledge.extract.web.html import fragment_markdown
from knowledge.model import Json

CONTAINER, LOCKED = "META-INF/container.xml", "META-INF/encryption.xml"
CIPHER = b"http://www.w3.org/2001/04/xmlenc#"
PAGES = ("application/xhtml+xml", "text/html", "text/x-oeb1-document", "")


@dataclass(frozen=True, slots=True)
class Book:
    package: Element
    folder: str
    chapters: list[str]
    """The members that hold the text, in reading order."""


def extract(source: Source, doc_type: str) -> Extracted:
    archive = open_archive(source)
    names = set(archive.namelist())
    if LOCKED in names and CIPHER in member(archive, LOCKED):
        raise errors.NeedsPassword("It is protected against copying", filename=source.filename)
    book = _book(archive, names)
    if not book.chapters:
        raise errors.Damaged("None of its chapters is there", filename=source.filename)
    return Extracted(_facts(book, doc_type), _pages(archive, book))


def _book(archive: zipfile.ZipFile, names: set[str]) -> Book:
    container = safe_xml.parse(member(archive, CONTAINER))
    path = next((element.get("full-path", "") for element in container.iter() if local(element.tag) == "rootfile"), "")
    if path not in names:
        raise errors.Damaged("The list of its chapters is missing")
    package = safe_xml.parse(member(archive, path))
    folder = posixpath.dirname(path)
    found = (posixpath.normpath(posixpath.join(folder, href)) for href in _spine(package))
    return Book(package, folder, [name for name in dict.fromkeys(found) if name in names])


def _spine(package: Element) -> Iterator[str]:
    """The chapters' addresses in reading order."""
    items = {
        element.get("id"): unquote(element.get("href", ""))
        for element in package.iter()
        if local(element.tag) == "item" and element.get("media-type", "") in PAGES
    }
    for element in package.iter():
        if local(element.tag) == "itemref" and (href := items.get(element.get("idref"))):
            yield href


def _pages(archive: zipfile.ZipFile, book: Book) -> Iterator[PageText]:
    with archive:
        titles = contents(archive, book.package, book.folder)
        for number, name in enumerate(book.chapters, start=1):
            try:
                text = fragment_markdown(member(archive, name))
                yield PageText(_headed(text, titles.get(name)), number)
            except errors.Damaged as error:
                yield PageText("", number, warning=f"Chapter {number} could not be read: {error}")


def _headed(text: str, title: str | None) -> str:
    """A chapter whose own text has no heading gets the one from the table of contents."""
    if not title or not any(map(str.isalnum, text)) or any(line.startswith("#") for line in text.split("\n")):
        return text
    return f"# {title}\n\n{text}"


def _facts(book: Book, doc_type: str) -> Facts:
    found: dict[str, str] = {}
    for element in book.package.iter():
        value = safe_xml.words(element)
        if value and len(element) == 0:
            found.setdefault(local(element.tag), value)
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
