"""PDF: per page the better of two readings of its text layer, or what can be recognised where there is none.

liteparse gives structure (columns, headings, tables); pdfium gives every character. Where liteparse lost too many words
pdfium's plain text is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pypdfium2 as pdfium

from knowledge import errors
from knowledge.extract.base import Extracted, PageText, Source
from knowledge.extract.image import ocr
from knowledge.extract.pdf import layout, scan
from knowledge.extract.pdf.annotations import notes
from knowledge.extract.pdf.cells import Cells
from knowledge.extract.pdf.choose_reading import at_top, better, read_plain
from knowledge.extract.pdf.facts import pdf_facts
from knowledge.extract.pdf.lost_lines import LostLines
from knowledge.extract.pdf.outline import Outline
from knowledge.extract.pdf.running_headers import RunningLines
from knowledge.model import Method

MOST_PAGES = 50_000


def extract(source: Source, doc_type: str) -> Extracted:
    document = _open(source)
    count = len(document)
    if count > MOST_PAGES:
        raise errors.ParserTooBig(f"It has {count} pages", pages=count, limit=MOST_PAGES)
    if count == 0:
        raise errors.NoText("It has no pages", filename=source.filename)
    if source.force_ocr:
        ocr.check_languages(source.ocr_languages)
    return Extracted(pdf_facts(document, doc_type), _pages(document, source))


def _open(source: Source) -> pdfium.PdfDocument:
    try:
        return pdfium.PdfDocument(source.path if source.content is None else source.content)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise errors.NeedsPassword("It is protected with a password", filename=source.filename) from error
        raise errors.Damaged(f"It cannot be opened as a PDF: {error}", filename=source.filename) from error


def _pages(document: pdfium.PdfDocument, source: Source) -> Iterator[PageText]:
    if source.force_ocr:
        yield from (_recognised(document, index, source, "") for index in range(len(document)))
        return
    outline, lost, running = Outline(document), LostLines(), RunningLines()
    forms = document.get_formtype() != 0
    for index, markdown in enumerate(layout.pages(source, len(document), forms)):
        page = _page(document, index, markdown, lost, source)
        if page.method is Method.TEXT_EXTRACTION:
            page = replace(page, text=outline.apply(index, running.strip(page.text, index + 1)))
        yield page


def _page(document: pdfium.PdfDocument, index: int, markdown: str, lost: LostLines, source: Source) -> PageText:
    try:
        page = document[index]
        try:
            rotated = page.get_rotation() != 0
            plain = read_plain(page)
            text = better(markdown, plain, rotated, Cells(page))
            text = lost.restore(text, plain.text, partial(at_top, page)) + notes(page)
            scanned = scan.needs_recognition(page, text)
        finally:
            page.close()
    except pdfium.PdfiumError as error:
        if markdown:
            return PageText(markdown, index + 1)
        return PageText("", index + 1, warning=f"Page {index + 1} could not be read: {error}")
    if scanned:
        return _recognised(document, index, source, text)
    return PageText(text, index + 1)


def _recognised(document: pdfium.PdfDocument, index: int, source: Source, text: str) -> PageText:
    try:
        ocr.check_languages(source.ocr_languages)
        found = ocr.recognise(scan.render(document, index), source.ocr_languages).text
    except errors.MissingDependency:
        raise
    except (errors.KnowledgeError, pdfium.PdfiumError, RuntimeError, OSError, ValueError) as error:
        return PageText(text, index + 1, warning=f"Page {index + 1} could not be recognised: {error}")
    if len(found) > len(text):
        return PageText(found, index + 1, Method.OCR)
    return PageText(text, index + 1)
