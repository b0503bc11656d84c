"""SVG: its text elements in document order, or OCR of the rendered drawing if it has none."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from PIL import Image

from knowledge import errors
from knowledge.extract import safe_xml
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.image import ocr
from knowledge.extract.image import reader as image_reader
from knowledge.extract.safe_xml import local_name
from knowledge.extract.text.plain import to_pages
from knowledge.model import ExtractionMethod
from knowledge.model.pages import PageWords, WordSource

TEXT_TAGS = ("title", "desc", "text", "foreignObject")
BLOCK_TAGS = {"p", "div", "li", "br", "td", "h1", "h2", "h3"}
POSITION_ATTRIBUTES = {"x", "y", "dx", "dy"}
RENDER_WIDTH_PIXELS = 2000
EXTERNAL_REFERENCE = re.compile(r"""(?i)\s(?:xlink:)?href\s*=\s*(["'])(?!#|data:).*?\1""")


def extract(source: Source, doc_type: str) -> Extraction:
    data = source.read()
    root = safe_xml.parse_xml(data)
    title = next((safe_xml.read_words(child) for child in root if local_name(child.tag) == "title"), None)
    lines = list(_read_text_lines(root))
    if any(lines):
        return Extraction(Facts(doc_type, title=title), to_pages(f"{line}\n" for line in lines))
    return Extraction(Facts(doc_type, title=title), iter([_recognise_drawing(source)]))


def _read_text_lines(root: Element) -> Iterator[str]:
    seen = set()
    for element in root.iter():
        if local_name(element.tag) in TEXT_TAGS:
            line = " ".join("".join(_read_element_text(element)).split())
            if line and line not in seen:
                seen.add(line)
                yield line


def _read_element_text(element: Element) -> Iterator[str]:
    """Yield the text of an element, with spaces around children that have their own position."""
    yield element.text or ""
    for child in element:
        gap = " " if POSITION_ATTRIBUTES.intersection(child.keys()) or local_name(child.tag) in BLOCK_TAGS else ""
        yield from (gap, *_read_element_text(child), gap, child.tail or "")


def _recognise_drawing(source: Source) -> PageText:
    ocr.check_languages(source.ocr_languages)
    picture = render_drawing(source, RENDER_WIDTH_PIXELS)
    found = ocr.recognise_text(picture, source.ocr_languages)
    words = PageWords(1, picture.width, picture.height, found.words, WordSource.OCR)
    return PageText(found.text, method=ExtractionMethod.IMAGE_ANALYSIS, words=words)


def render_drawing(source: Source, width: int, with_fonts: bool = False) -> Image.Image:
    """Return the drawing as an image of this width on white; its text is drawn with the fonts of this machine."""
    import resvg_py

    # Protects against SSRF and local file access by external references.
    drawing = EXTERNAL_REFERENCE.sub("", source.read().decode("utf-8", errors="replace"))
    try:
        png = resvg_py.svg_to_bytes(
            svg_string=drawing, width=width, background="white", skip_system_fonts=not with_fonts
        )
    except ValueError as error:
        raise errors.Damaged(f"The SVG cannot be rendered: {error}", filename=source.filename) from error
    picture = Image.open(io.BytesIO(png))
    image_reader.check_pixel_count(picture)
    return picture
