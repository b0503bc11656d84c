"""Drawings: their words in the order they were written; what is drawn without words is recognised like an image."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from PIL import Image

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.image import ocr
from knowledge.extract.image import reader as image_reader
from knowledge.extract.safe_xml import local
from knowledge.extract.text.plain import pages
from knowledge.model import Method

SPOKEN = ("title", "desc", "text", "foreignObject")
BLOCKS = {"p", "div", "li", "br", "td", "h1", "h2", "h3"}
PLACED = {"x", "y", "dx", "dy"}
WIDTH = 2000
"""Pixels across a drawing that is recognised."""
EXTERNAL = re.compile(r"""(?i)\s(?:xlink:)?href\s*=\s*(["'])(?!#|data:).*?\1""")


def extract(source: Source, doc_type: str) -> Extracted:
    data = source.read()
    root = safe_xml.parse(data)
    title = next((safe_xml.words(child) for child in root if local(child.tag) == "title"), None)
    spoken = list(_spoken(root))
    if any(spoken):
        return Extracted(Facts(doc_type, title=title), pages(f"{line}\n" for line in spoken))
    return Extracted(Facts(doc_type, title=title), iter([_recognised(data, source)]))


def _spoken(root: Element) -> Iterator[str]:
    seen = set()
    for element in root.iter():
        if local(element.tag) in SPOKEN:
            line = " ".join("".join(_said(element)).split())
            if line and line not in seen:
                seen.add(line)
                yield line


def _said(element: Element) -> Iterator[str]:
    """The words of an element; a part that has a place of its own stands apart."""
    yield element.text or ""
    for child in element:
        apart = " " if PLACED.intersection(child.keys()) or local(child.tag) in BLOCKS else ""
        yield from (apart, *_said(child), apart, child.tail or "")


def _recognised(data: bytes, source: Source) -> PageText:
    import resvg_py

    ocr.check_languages(source.ocr_languages)
    drawing = EXTERNAL.sub("", data.decode("utf-8", errors="replace"))  # it shall fetch and open nothing
    try:
        png = resvg_py.svg_to_bytes(svg_string=drawing, width=WIDTH, background="white", skip_system_fonts=True)
    except ValueError as error:
        raise errors.Damaged(f"It cannot be drawn: {error}", filename=source.filename) from error
    picture = Image.open(io.BytesIO(png))
    image_reader.measure(picture)
    return PageText(ocr.recognise(picture, source.ocr_languages).text, method=Method.IMAGE_ANALYSIS)
