"""Reads PDF: each page from its text layer, or by OCR where it has none.

liteparse returns structure (columns, headings, tables), pdfium every character. Where liteparse lost too many words,
pdfium's text is taken.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pypdfium2 as pdfium
from PIL import Image

from knowledge import errors
from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.image import ocr
from knowledge.extract.pdf import liteparse_pages
from knowledge.extract.pdf.choose_reading import choose_reading, is_at_top, read_plain
from knowledge.extract.pdf.document_title import PLACEHOLDER_VALUE
from knowledge.extract.pdf.outline import PdfOutline
from knowledge.extract.pdf.repairs.pages import RunningHeaders, restore_lost_lines
from knowledge.extract.pdf.repairs.tables import CellFinder
from knowledge.extract.pdf.repairs.titles import read_metadata
from knowledge.model import ExtractionMethod, Json
from knowledge.model.pages import PageWords, WordSource

PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z|[+-]\d\d)'?(\d\d)?)?")
MAX_PAGES = 50_000

TEXT_ANNOTATIONS = (
    pdfium.raw.FPDF_ANNOT_TEXT,
    pdfium.raw.FPDF_ANNOT_FREETEXT,
    pdfium.raw.FPDF_ANNOT_HIGHLIGHT,
    pdfium.raw.FPDF_ANNOT_UNDERLINE,
    pdfium.raw.FPDF_ANNOT_STRIKEOUT,
    pdfium.raw.FPDF_ANNOT_SQUIGGLY,
)
MAX_ANNOTATIONS = 1000
MAX_NOTE_BYTES = 20_000

MIN_TEXT_LETTERS, MAX_STAMP_LETTERS = 16, 200
"""A page with fewer letters than the first has no text layer, with fewer than the second it may be a stamped scan."""
SCAN_COVER_SHARE = 0.5
MAX_PIXELS = 40_000_000
MAX_DPI, TARGET_SIDE_PIXELS = 300, 2300
"""The resolution of a small page is raised to at most MAX_DPI until its longer side has TARGET_SIDE_PIXELS."""
UNMAPPED_LETTER = re.compile("[\ufffd\ue000-\uf8ff]")
"""Returned for a font without a table of characters."""
MAX_UNMAPPED_SHARE = 0.3
BLANK_CHECK_PIXELS, MAX_BLANK_CONTRAST = 400, 16
"""A page drawn at this size whose grey values differ by less than this (of 255) is blank."""
POINTS_PER_INCH = 72


def read_pdf_facts(document: pdfium.PdfDocument, doc_type: str) -> Facts:
    info = {key: value for key, value in read_metadata(document).items() if not PLACEHOLDER_VALUE.match(value)}
    metadata: Json = {
        "created": to_iso_date(info.get("CreationDate", "")),
        "modified": to_iso_date(info.get("ModDate", "")),
        "subject": info.get("Subject"),
        "keywords": info.get("Keywords"),
    }
    return Facts(
        doc_type,
        title=info.get("Title"),
        author=info.get("Author"),
        language=_read_language(document),
        page_count=len(document),
        metadata={key: value for key, value in metadata.items() if value},
    )


def to_iso_date(value: str) -> str | None:
    """Convert a PDF date (ISO 32000-1, 7.9.4) to ISO 8601."""
    found = PDF_DATE.match(value)
    if not found:
        return None
    year, month, day, hour, minute, second, zone, offset = found.groups()
    zone = "+00:00" if zone in (None, "Z") else f"{zone}:{offset or '00'}"
    return f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"


def _read_language(document: pdfium.PdfDocument) -> str | None:
    length = pdfium.raw.FPDFCatalog_GetLanguage(document, None, 0)
    if length <= 2:
        return None
    buffer = ctypes.create_string_buffer(length)
    pdfium.raw.FPDFCatalog_GetLanguage(document, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    return buffer.raw[: length - 2].decode("utf-16-le", errors="replace") or None


def extract(source: Source, doc_type: str) -> Extraction:
    document = open_document(source)
    count = len(document)
    if count > MAX_PAGES:
        raise errors.ParserTooBig(f"It has {count} pages, more than {MAX_PAGES}", pages=count, limit=MAX_PAGES)
    if count == 0:
        raise errors.NoText("It has no pages", filename=source.filename)
    if source.force_ocr:
        ocr.check_languages(source.ocr_languages)
    return Extraction(read_pdf_facts(document, doc_type), _read_pages(document, source))


def open_document(source: Source) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(source.path if source.content is None else source.content)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise errors.NeedsPassword("It is protected with a password", filename=source.filename) from error
        raise errors.Damaged(f"It cannot be opened as a PDF: {error}", filename=source.filename) from error


def _read_pages(document: pdfium.PdfDocument, source: Source) -> Iterator[PageText]:
    if source.force_ocr:
        yield from (_recognise_page(document, index, source, "") for index in range(len(document)))
        return
    outline, running = PdfOutline(document), RunningHeaders()
    restored: set[str] = set()
    forms = document.get_formtype() != 0
    for index, markdown in enumerate(liteparse_pages.read_structured_pages(source, len(document), forms)):
        page = _read_page(document, index, markdown, restored, source)
        if page.method is ExtractionMethod.TEXT_EXTRACTION:
            page = replace(page, text=outline.apply_headings(index, running.strip_page(page.text, index + 1)))
        yield page


def _read_page(document: pdfium.PdfDocument, index: int, markdown: str, restored: set[str], source: Source) -> PageText:
    try:
        page = document[index]
        try:
            rotated = page.get_rotation() != 0
            plain = read_plain(page)
            text = choose_reading(markdown, plain, rotated, CellFinder(page))
            text = restore_lost_lines(text, plain.text, partial(is_at_top, page), restored) + render_notes(page)
            scanned = needs_ocr(page, text)
        finally:
            page.close()
    except pdfium.PdfiumError as error:
        if markdown:
            return PageText(markdown, index + 1)
        return PageText("", index + 1, warning=f"Page {index + 1} could not be read: {error}")
    if scanned:
        return _recognise_page(document, index, source, text)
    return PageText(text, index + 1)


def _recognise_page(document: pdfium.PdfDocument, index: int, source: Source, text: str) -> PageText:
    try:
        ocr.check_languages(source.ocr_languages)
        recognised = ocr.recognise_text(render_page(document, index), source.ocr_languages)
        width, height = document.get_page_size(index)
    except errors.MissingDependency:
        raise
    except (errors.KnowledgeError, pdfium.PdfiumError, RuntimeError, OSError, ValueError) as error:
        return PageText(text, index + 1, warning=f"OCR of page {index + 1} failed: {error}")
    if len(recognised.text) > len(text):
        words = PageWords(index + 1, width, height, recognised.words, WordSource.OCR)
        return PageText(recognised.text, index + 1, ExtractionMethod.OCR, words=words)
    return PageText(text, index + 1)


def render_notes(page: pdfium.PdfPage) -> str:
    """Return the annotations of a page as lines to append to its text."""
    count = min(MAX_ANNOTATIONS, pdfium.raw.FPDFPage_GetAnnotCount(page))
    found = (_read_note(page, index) for index in range(count))
    return "".join(f"\n\nNote: {line}" for line in dict.fromkeys(found) if line)


def _read_note(page: pdfium.PdfPage, index: int) -> str:
    annotation = pdfium.raw.FPDFPage_GetAnnot(page, index)
    if not annotation:
        return ""
    try:
        if pdfium.raw.FPDFAnnot_GetSubtype(annotation) not in TEXT_ANNOTATIONS:
            return ""
        return " ".join(_read_contents(annotation).split())
    finally:
        pdfium.raw.FPDFPage_CloseAnnot(annotation)


def _read_contents(annotation: pdfium.raw.FPDF_ANNOTATION) -> str:
    length = pdfium.raw.FPDFAnnot_GetStringValue(annotation, b"Contents", None, 0)
    if not 2 < length <= MAX_NOTE_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(length)
    letters = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
    pdfium.raw.FPDFAnnot_GetStringValue(annotation, b"Contents", letters, length)
    return buffer.raw[: length - 2].decode("utf-16-le", errors="replace")


def needs_ocr(page: pdfium.PdfPage, text: str) -> bool:
    letters = sum(map(str.isalnum, text))
    if letters < MIN_TEXT_LETTERS:
        return not _is_blank(page)
    if len(UNMAPPED_LETTER.findall(text)) > MAX_UNMAPPED_SHARE * len(text):
        return True
    return letters < MAX_STAMP_LETTERS and _measure_image_share(page) > SCAN_COVER_SHARE


def _is_blank(page: pdfium.PdfPage) -> bool:
    width, height = page.get_size()
    scale = min(1.0, BLANK_CHECK_PIXELS / max(width, height, 1))
    low, high = page.render(scale=scale, grayscale=True).to_pil().convert("L").getextrema()
    return bool(high - low < MAX_BLANK_CONTRAST)


def _measure_image_share(page: pdfium.PdfPage) -> float:
    """Return the share of the page that its largest image covers."""
    width, height = page.get_size()
    largest = 0.0
    for found in page.get_objects(filter=[pdfium.raw.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = found.get_bounds()
        largest = max(largest, (right - left) * (top - bottom))
    return float(largest / max(1.0, width * height))


def render_page(document: pdfium.PdfDocument, index: int) -> Image.Image:
    page = document[index]
    try:
        width, height = page.get_size()
        wanted = max(ocr.RESOLUTION_DPI, min(MAX_DPI, POINTS_PER_INCH * TARGET_SIDE_PIXELS / max(width, height, 1.0)))
        scale = min(wanted / POINTS_PER_INCH, (MAX_PIXELS / max(1.0, width * height)) ** 0.5)
        image: Image.Image = page.render(scale=scale, grayscale=True).to_pil()
        return image
    finally:
        page.close()
