"""Pages of a PDF as pictures, and the words of their text layer with boxes; runs in the sandboxed child."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator

import pypdfium2 as pdfium
from PIL import Image

from knowledge import errors
from knowledge.extract.base import Source
from knowledge.extract.pages.packed_words import MAX_WORDS, clamp_box
from knowledge.extract.pages.page_reader import check_page_number
from knowledge.extract.pdf.reader import open_document
from knowledge.model.pages import PageSize, PageWord, PageWords, WordSource

MAX_PIXELS, MAX_SIDE_PIXELS = 25_000_000, 16_000
"""Limits of a drawn page; a very long page is drawn narrower. WebP has at most 16,383 pixels per side."""
MAX_LETTERS = 1_000_000
"""Letters of one page that are read."""
PROBE_PIXELS = 1 << 24
"""Size of the device to which page coordinates are converted, large because pdfium returns whole pixels."""
IDEOGRAPH = re.compile("[\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Letters of scripts without spaces, each of which is a word."""
HYPHEN = 0x02
"""Code that pdfium returns for a hyphen at the end of a line."""


def list_page_sizes(source: Source, first: int, last: int) -> tuple[int, list[PageSize]]:
    document = open_document(source)
    count = len(document)
    return count, [_measure_page(document, number) for number in range(first, min(last, count) + 1)]


def _measure_page(document: pdfium.PdfDocument, number: int) -> PageSize:
    try:
        width, height = document.get_page_size(number - 1)
    except pdfium.PdfiumError:
        width = height = 0.0
    return PageSize(number, round(max(width, 0.0), 2), round(max(height, 0.0), 2))


def draw_page(source: Source, number: int, width: int) -> Image.Image:
    document = open_document(source)
    check_page_number(number, len(document))
    if document.get_formtype() != pdfium.raw.FORMTYPE_NONE:
        document.init_forms()
    page = _load_page(document, number)
    page_width, page_height = page.get_size()
    if not (page_width > 0 and page_height > 0 and math.isfinite(page_width) and math.isfinite(page_height)):
        raise errors.Damaged(f"Page {number} has no size", page=number)
    bitmap = page.render(scale=choose_scale(page_width, page_height, width), rev_byteorder=True)
    image: Image.Image = bitmap.to_pil()
    return image.convert("RGB")


def choose_scale(page_width: float, page_height: float, width: int) -> float:
    """Return the pixels per point that make a page this wide, or less if it would have too many pixels."""
    scale = min(width / page_width, MAX_SIDE_PIXELS / page_height)
    # a little less, because the number of pixels is rounded up
    return min(scale, math.sqrt(MAX_PIXELS / (page_width * page_height))) * (1 - 1e-7)


def _load_page(document: pdfium.PdfDocument, number: int) -> pdfium.PdfPage:
    try:
        return document[number - 1]
    except pdfium.PdfiumError as error:
        raise errors.Damaged(f"Page {number} cannot be read: {error}", page=number) from error


def read_text_words(source: Source, numbers: list[int]) -> Iterator[PageWords]:
    document = open_document(source)
    for number in numbers:
        check_page_number(number, len(document))
        page = _load_page(document, number)
        try:
            yield _read_page_words(page, number)
        finally:
            page.close()


def _read_page_words(page: pdfium.PdfPage, number: int) -> PageWords:
    width, height = page.get_size()
    textpage = page.get_textpage()
    try:
        words = tuple(_join_letters(textpage, _PageToShares(page))) if width > 0 and height > 0 else ()
    finally:
        textpage.close()
    return PageWords(number, width, height, words, WordSource.TEXT if words else WordSource.NONE)


class _PageToShares:
    """Converts page coordinates to shares of the page as it is drawn, with its rotation and crop box."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        reach = max(*page.get_size(), 1.0)
        origin, right, up = (self._convert(page, *point) for point in ((0.0, 0.0), (reach, 0.0), (0.0, reach)))
        self._origin = origin
        self._x = ((right[0] - origin[0]) / reach, (right[1] - origin[1]) / reach)
        self._y = ((up[0] - origin[0]) / reach, (up[1] - origin[1]) / reach)

    @staticmethod
    def _convert(page: pdfium.PdfPage, x: float, y: float) -> tuple[float, float]:
        column, row = ctypes.c_int(), ctypes.c_int()
        pdfium.raw.FPDF_PageToDevice(page, 0, 0, PROBE_PIXELS, PROBE_PIXELS, 0, x, y, column, row)
        return column.value / PROBE_PIXELS, row.value / PROBE_PIXELS

    def convert(self, x: float, y: float) -> tuple[float, float]:
        return (
            self._origin[0] + x * self._x[0] + y * self._y[0],
            self._origin[1] + x * self._x[1] + y * self._y[1],
        )


def _join_letters(textpage: pdfium.PdfTextPage, shares: _PageToShares) -> Iterator[PageWord]:
    """Yield the words of a page; a word ends at white space, and an ideograph is a word."""
    raw, count = pdfium.raw, min(textpage.count_chars(), MAX_LETTERS)
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    word = _GrowingWord()
    made = 0
    for index in range(count):
        code = raw.FPDFText_GetUnicode(textpage, index)
        letter = "-" if code == HYPHEN else chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
        alone = IDEOGRAPH.match(letter) is not None
        if (not letter or letter.isspace() or alone) and word.text:
            yield word.make(shares)
            made += 1
            word = _GrowingWord()
        if not letter or letter.isspace() or not letter.isprintable():
            continue
        if raw.FPDFText_GetCharBox(textpage, index, left, right, bottom, top):
            word.add(letter, left.value, bottom.value, right.value, top.value)
            if alone:
                yield word.make(shares)
                made += 1
                word = _GrowingWord()
        if made >= MAX_WORDS:
            return
    if word.text:
        yield word.make(shares)


class _GrowingWord:
    def __init__(self) -> None:
        self.text = ""
        self._left = self._bottom = math.inf
        self._right = self._top = -math.inf

    def add(self, letter: str, left: float, bottom: float, right: float, top: float) -> None:
        self.text += letter
        self._left, self._bottom = min(self._left, left), min(self._bottom, bottom)
        self._right, self._top = max(self._right, right), max(self._top, top)

    def make(self, shares: _PageToShares) -> PageWord:
        start, end = shares.convert(self._left, self._bottom), shares.convert(self._right, self._top)
        return PageWord(self.text, clamp_box(*start, *end))
