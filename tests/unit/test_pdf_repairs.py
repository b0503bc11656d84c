"""Each repair of the PDF readers is still needed: the bare library shows the fault on a small PDF.

A test that fails with "can be removed" means that the fault was fixed upstream.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TypeVar

import pypdfium2 as pdfium
import pytest
from liteparse import LiteParse, ParseError
from PIL import Image

from knowledge.extract.pdf import repairs
from knowledge.extract.pdf.repairs import pages, tables, titles, words
from tests.data.extract.documents import Pdf
from tests.data.extract.read_sample import join_text, read_pages

T = TypeVar("T", bound=Callable[..., None])
SENTENCE = "The harbour was full of ships that waited for a better wind."
WARES = (("Ware", "Price", "Stock"), ("Tea", "12", "0"), ("Coffee", "8", "0"), ("Cocoa beans", "9", "0"))
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")

tested: set[Callable[..., object]] = set()


def shows_fault_of(*repaired: Callable[..., object]) -> Callable[[T], T]:
    """Register the repairs whose fault a test shows."""
    tested.update(repaired)
    return lambda test: test


def assert_fault(repair: Callable[..., object], exists: bool) -> None:
    assert exists, f"Fixed upstream: {repair.__qualname__} can be removed"


def raises(kind: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except kind:
        return True
    return False


def parse_bare(data: bytes, keep_headers_footers: bool = True) -> dict[int, str]:
    """The Markdown of each page by its number, with the options of the product and without repairs."""
    parser = LiteParse(
        ocr_enabled=False,
        image_mode="off",
        output_format="markdown",
        quiet=True,
        num_workers=1,
        extract_links=False,
        keep_headers_footers=keep_headers_footers,
        continue_on_page_error=True,
    )
    return {page.page_num: page.markdown for page in parser.parse(data).pages}


def read_bare(data: bytes) -> str:
    with pdfium.PdfDocument(data) as document:
        text: str = document[0].get_textpage().get_text_range()
        return text.replace("\r\n", "\n")


def read_repaired(tmp_path: Path, data: bytes) -> str:
    return join_text(read_pages(tmp_path, "a.pdf", data)[1])


def make_page(*lines: tuple[int, int, int, str], rotate: int = 0) -> bytes:
    pdf = Pdf()
    pdf.text(*lines, rotate=rotate)
    return pdf.to_bytes()


def make_lines(*lines: str) -> bytes:
    """A page of prose."""
    return make_page(*((72, 760 - 14 * place, 12, line) for place, line in enumerate(lines)))


def find_repairs() -> Iterator[FunctionType]:
    """Every function of the package whose docstring names a fault."""
    for found in pkgutil.iter_modules(repairs.__path__):
        module = importlib.import_module(f"{repairs.__name__}.{found.name}")
        local = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        methods = [method for value in local if inspect.isclass(value) for method in vars(value).values()]
        for value in (*local, *methods):
            if isinstance(value, FunctionType) and "Fault:" in (value.__doc__ or ""):
                yield value


def test_every_repair_has_a_test_of_its_fault() -> None:
    assert {repair.__qualname__ for repair in find_repairs()} == {repair.__qualname__ for repair in tested}


# -- pages ----------------------------------------------------------------------------------------


@shows_fault_of(pages.ignore_parse_failure)
def test_a_pdf_with_bytes_before_its_header_is_read(tmp_path: Path) -> None:
    data = b"\n" + make_lines(SENTENCE)
    assert read_bare(data) == SENTENCE
    assert_fault(pages.ignore_parse_failure, raises(ParseError, lambda: parse_bare(data)))
    assert pages.ignore_parse_failure(lambda: parse_bare(data)) is None
    assert read_repaired(tmp_path, data) == SENTENCE


@shows_fault_of(pages.fill_missing_pages)
def test_pages_after_a_damaged_one_keep_their_number(tmp_path: Path) -> None:
    pdf = Pdf()
    for number in (1, 2, 3):
        pdf.text((72, 760, 12, f"Page {number} of the book about the harbour"))
    data = pdf.to_bytes()
    kids = data[data.index(b"/Kids [") :].partition(b"]")[0]
    second = kids.split(b" ")[4]
    damaged = data.replace(kids, kids.replace(b" %s 0 R" % second, b" 99 0 R"))
    bare = parse_bare(damaged)
    assert_fault(pages.fill_missing_pages, list(bare) == [1, 3])
    assert [text[:6] for text in pages.fill_missing_pages(bare.items(), 3)] == ["Page 1", "", "Page 3"]
    assert [(page.number, bool(page.warning)) for page in read_pages(tmp_path, "a.pdf", damaged)[1]] == [
        (1, False), (2, True), (3, False),
    ]  # fmt: skip


@shows_fault_of(pages.drop_empty_fence)
def test_a_page_without_text_is_empty() -> None:
    pdf = Pdf()
    pdf.page(b"")
    bare = parse_bare(pdf.to_bytes())[1]
    assert_fault(pages.drop_empty_fence, bare.startswith("```"))
    assert pages.drop_empty_fence(bare) == ""


@shows_fault_of(pages.turn_upright)
@pytest.mark.parametrize("turned", [90, 180, 270])
def test_a_rotated_page_is_read_in_order(tmp_path: Path, turned: int) -> None:
    lines = [f"Line {word} of a page that somebody turned" for word in NUMBERS]
    data = make_page(*((72, 700 - 20 * place, 11, line) for place, line in enumerate(lines)), rotate=turned)
    places = [parse_bare(data)[1].find(line) for line in lines]
    assert_fault(pages.turn_upright, -1 in places or places != sorted(places))
    assert read_repaired(tmp_path, data).split("\n") == lines


def test_pdfium_returns_the_lines_of_a_page_turned_by_90_degrees_backwards() -> None:
    data = make_page((72, 700, 11, "The first line"), (72, 680, 11, "The second line"), rotate=90)
    assert_fault(pages.turn_upright, read_bare(data).split("\n") == ["The second line", "The first line"])


@shows_fault_of(pages.restore_lost_lines)
def test_a_line_that_runs_up_the_margin_is_not_lost(tmp_path: Path) -> None:
    pdf = Pdf()
    prose = b"\n".join(b"BT /F1 11 Tf 72 %d Td (%s) Tj ET" % (760 - 14 * y, SENTENCE.encode()) for y in range(5))
    pdf.page(prose + b" BT /F1 11 Tf 0 1 -1 0 40 300 Tm (Printed in the harbour office) Tj ET")
    data = pdf.to_bytes()
    assert_fault(pages.restore_lost_lines, "Printed" not in parse_bare(data)[1])
    assert "\nPrinted in the harbour office" in read_repaired(tmp_path, data)


@shows_fault_of(pages.RunningHeaders.strip_page)
def test_chapter_headings_are_no_running_headers(tmp_path: Path) -> None:
    pdf = Pdf()
    for number in (1, 2, 3):
        body = [(11, f"The {word} sentence of part {number} has its own words.") for word in NUMBERS]
        lines = [(9, f"Harbour Gazette {number}"), (22, f"Chapter {7 * number}"), *body, (9, f"Page {number} of 3")]
        pdf.text(*((72, 800 - 40 * place, size, line) for place, (size, line) in enumerate(lines)))
    data = pdf.to_bytes()
    bare = "".join(parse_bare(data, keep_headers_footers=False).values())
    assert_fault(pages.RunningHeaders.strip_page, "Chapter" not in bare or "Gazette 1" not in bare)
    text = read_repaired(tmp_path, data)
    assert (text.count("# Chapter"), text.count("Gazette"), text.count("Page ")) == (3, 1, 1)


def test_no_image_comes_from_liteparse_without_images() -> None:
    """A guard, not a repair: nothing removes image links from its Markdown."""
    pdf = Pdf()
    pdf.picture(Image.new("L", (200, 200), 120))
    assert "![" not in parse_bare(pdf.to_bytes())[1]


# -- titles ---------------------------------------------------------------------------------------


@shows_fault_of(titles.read_metadata)
def test_a_title_that_cannot_be_decoded_does_not_cost_the_document(tmp_path: Path) -> None:
    pdf = Pdf()
    pdf.text((72, 760, 12, SENTENCE))
    pdf.info = b"/Title <FEFFD800> /Author (Ada)"
    data = pdf.to_bytes()
    with pdfium.PdfDocument(data) as document:
        assert_fault(titles.read_metadata, raises(UnicodeDecodeError, document.get_metadata_dict))
        assert titles.read_metadata(document) == {"Author": "Ada"}
    facts, _ = read_pages(tmp_path, "a.pdf", data)
    assert (facts.title, facts.author) == (None, "Ada")


@shows_fault_of(titles.read_bookmark_title)
def test_a_bookmark_that_cannot_be_decoded_does_not_cost_the_others(tmp_path: Path) -> None:
    pdf = Pdf()
    pdf.text((72, 760, 12, "Prices"), (72, 720, 12, SENTENCE))
    pdf.outline(("Broken", 1), ("Prices", 1))
    data = pdf.to_bytes().replace(b"(Broken)", b"<FEFFD800>")
    with pdfium.PdfDocument(data) as document:
        bookmark = next(iter(document.get_toc()))
        assert_fault(titles.read_bookmark_title, raises(UnicodeDecodeError, bookmark.get_title))
        assert titles.read_bookmark_title(bookmark) == ""
    assert read_repaired(tmp_path, data).startswith("# Prices")


@shows_fault_of(titles.split_merged_title)
def test_two_headings_below_each_other_are_two(tmp_path: Path) -> None:
    pdf = Pdf()
    pdf.text((72, 760, 20, "The first chapter"), (72, 736, 20, "The Second Chapter"), (72, 700, 11, SENTENCE))
    pdf.outline(("The first chapter", 1), ("The second chapter", 1))
    data = pdf.to_bytes()
    assert_fault(titles.split_merged_title, "The first chapter The Second Chapter" in parse_bare(data)[1])
    assert read_repaired(tmp_path, data).startswith("# The first chapter\n\n# The Second Chapter\n\n")


# -- words ----------------------------------------------------------------------------------------


@shows_fault_of(words.join_hyphenated_lines)
def test_a_hyphenated_word_is_whole(tmp_path: Path) -> None:
    data = make_page((72, 760, 12, "A letter about the break-"), (72, 746, 12, "water came in spring."), rotate=90)
    upright = make_lines("A letter about the break-", "water came in spring.")
    assert_fault(words.join_hyphenated_lines, "break\ufffewater" in read_bare(upright))
    assert words.join_hyphenated_lines(read_bare(upright)) == "A letter about the breakwater came in spring."
    assert "breakwater" in read_repaired(tmp_path, data)


def make_type3_page(*lines: str) -> bytes:
    """A page in a font of pictures without a table of characters, as TeX made them."""
    pdf = Pdf()
    drawn = pdf.stream(b"500 0 0 0 500 700 d1 0 0 400 700 re f")
    names, programs = (b" ".join(form % code for code in range(256)) for form in (b"/a%d", b"/a%%d %d 0 R" % drawn))
    pdf.font = pdf.add(
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 500 700] /FontMatrix [0.001 0 0 0.001 0 0] /FirstChar 0 "
        b"/LastChar 255 /Widths [%s] /Encoding << /Type /Encoding /Differences [0 %s] >> /CharProcs << %s >> "
        b"/Resources << >> >>" % (b"500 " * 256, names, programs)
    )
    shown = (line.encode("latin-1").hex().encode() for line in lines)
    pdf.page(b"\n".join(b"BT /F1 12 Tf 72 %d Td <%s> Tj ET" % (700 - 16 * y, line) for y, line in enumerate(shown)))
    return pdf.to_bytes()


@shows_fault_of(words.expand_ligatures, words.correct_ligatures)
def test_ligatures_of_a_tex_font_are_letters(tmp_path: Path) -> None:
    data = make_type3_page("the o\x1ecial forti\x1ccations re\x1dect the sun", "and the sea was high that day")
    assert_fault(words.expand_ligatures, "o\x1ecial forti\x1ccations re\x1dect" in read_bare(data))
    assert_fault(words.correct_ligatures, "reflect" not in parse_bare(data)[1])
    assert "the official fortifications reflect the sun" in read_repaired(tmp_path, data)


def make_unicode_page(*lines: str) -> bytes:
    """A page in a font whose codes are mapped to Unicode; the widths differ, or the text would be taken for code."""
    pdf = Pdf()
    codes = {letter: code for code, letter in enumerate(sorted(set("".join(lines))), start=32)}
    mapped = b"\n".join(
        b"<%02X> <%s>" % (code, letter.encode("utf-16-be").hex().encode()) for letter, code in codes.items()
    )
    table = pdf.stream(
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def "
        b"1 begincodespacerange <00> <FF> endcodespacerange %d beginbfchar\n%s\nendbfchar endcmap end end"
        % (len(codes), mapped)
    )
    widths = b" ".join(b"%d" % (250 if code == codes[" "] else 480 + 40 * (code % 3)) for code in range(256))
    pdf.font = pdf.add(
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 0 /LastChar 255 /Widths [%s] "
        b"/ToUnicode %d 0 R >>" % (widths, table)
    )
    shown = (bytes(codes[letter] for letter in line).hex().encode() for line in lines)
    pdf.page(b"\n".join(b"BT /F1 11 Tf 72 %d Td <%s> Tj ET" % (760 - 16 * y, line) for y, line in enumerate(shown)))
    return pdf.to_bytes()


@shows_fault_of(words.restore_rtl_order)
def test_a_hebrew_line_on_an_english_page_is_read_from_right_to_left(tmp_path: Path) -> None:
    hebrew = "שלום עולם וברוכים הבאים"
    data = make_unicode_page(*[SENTENCE] * 4, hebrew[::-1], *[SENTENCE] * 2)
    assert hebrew in read_bare(data)
    assert_fault(words.restore_rtl_order, hebrew not in parse_bare(data)[1])
    assert hebrew in read_repaired(tmp_path, data)


@shows_fault_of(words.restore_dashes)
@pytest.mark.parametrize("dash", ["—", "–"])
def test_a_dash_at_the_end_of_a_line_is_kept(tmp_path: Path, dash: str) -> None:
    split = (f"The master of the harbour wrote to the mayor{dash}", "nobody knows why he did so that year.")
    data = make_lines(SENTENCE, *split, SENTENCE)
    assert_fault(words.restore_dashes, "mayornobody" in parse_bare(data)[1])
    assert f"mayor{dash}nobody" in read_repaired(tmp_path, data)


@shows_fault_of(words.join_torn_words)
def test_a_hyphenated_word_in_two_blocks_is_whole_and_its_first_half_no_heading(tmp_path: Path) -> None:
    data = make_page((72, 760, 16, "The rules can be in-"), (72, 720, 11, f"troduced at any time. {SENTENCE}"))
    assert_fault(words.join_torn_words, "# The rules can be in-\n\ntroduced" in parse_bare(data)[1])
    assert read_repaired(tmp_path, data).startswith("The rules can be introduced at any time.")


# -- tables ---------------------------------------------------------------------------------------


def make_ruled_table(columns: tuple[int, ...], rules: tuple[int, ...], right: int = 420) -> bytes:
    """A table with lines between the columns and at the given heights."""
    pdf = Pdf()
    lines = [(72, 690, SENTENCE)]
    for place, cells in enumerate(WARES):
        lines += [(x, 640 - 20 * place, cell) for x, cell in zip(columns, cells, strict=True)]
    drawn = [b"%d %d m %d %d l S" % (columns[0] - 6, y, right, y) for y in rules]
    drawn += [b"%d %d m %d %d l S" % (x - 6, max(rules), x - 6, min(rules)) for x in (*columns, right + 6)]
    drawn += [b"BT /F1 11 Tf %d %d Td (%s) Tj ET" % (x, y, said.encode()) for x, y, said in lines]
    pdf.page(b"\n".join(drawn))
    return pdf.to_bytes()


@shows_fault_of(tables.split_merged_rows)
def test_rows_without_a_line_between_them_are_rows(tmp_path: Path) -> None:
    data = make_ruled_table((72, 200, 320), rules=(654, 634, 574))
    assert_fault(tables.split_merged_rows, "| Tea Coffee Cocoa beans |" in parse_bare(data)[1])
    assert "| Tea | 12 | 0 |\n| Coffee | 8 | 0 |\n| Cocoa beans | 9 | 0 |" in read_repaired(tmp_path, data)


@shows_fault_of(tables.restore_borderless_tables)
def test_a_table_without_borders_is_read_by_its_rows(tmp_path: Path) -> None:
    rows = (("Tea", "1683"), ("Coffee", "1684"), ("Cocoa", "169"))
    cells = [(x, 600 - 25 * y, 11, cell) for y, row in enumerate(rows) for x, cell in zip((72, 132), row, strict=True)]
    data = make_page((72, 640, 11, SENTENCE), *cells, (72, 505, 11, SENTENCE))
    assert_fault(tables.restore_borderless_tables, "Tea Coffee Cocoa\n\n1683 1684 169" in parse_bare(data)[1])
    assert "| Tea | 1683 |\n| --- | --- |\n| Coffee | 1684 |\n| Cocoa | 169 |" in read_repaired(tmp_path, data)


@shows_fault_of(tables.convert_prose_table)
def test_paragraphs_with_a_hanging_indent_are_no_table(tmp_path: Path) -> None:
    rows = (("2", "ships that come in at night to the har-"), ("bour", "wait for the watch"), ("3", "and for the sun"))
    cells = [(x, 700 - 18 * y, 11, cell) for y, row in enumerate(rows) for x, cell in zip((72, 120), row, strict=True)]
    data = make_page((72, 760, 11, SENTENCE), *cells)
    assert_fault(tables.convert_prose_table, "har- |\n|---|---|\n| bour |" in parse_bare(data)[1])
    text = read_repaired(tmp_path, data)
    assert "|" not in text and "to the harbour wait for the watch" in text


@shows_fault_of(tables.restore_paragraph_end)
def test_the_last_line_of_a_paragraph_is_no_table_header(tmp_path: Path) -> None:
    rows = [*WARES[1:], ("Salt", "7", "3"), ("Rope", "6", "1")]
    cells = [
        (x, 400 - 20 * y, 11, cell)
        for y, row in enumerate(rows)
        for x, cell in zip((72, 162, 252), row, strict=True)
    ]  # fmt: skip
    lead = "What the harbour asked for its wares in that year, and what it"
    data = make_page((72, 440, 11, lead), (72, 420, 11, "paid to the owners."), *cells)
    assert_fault(tables.restore_paragraph_end, "| paid to | the owners. |" in parse_bare(data)[1])
    assert "and what it paid to the owners.\n\n| Tea | 12 | 0 |" in read_repaired(tmp_path, data)
