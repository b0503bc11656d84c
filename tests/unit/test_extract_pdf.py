"""PDF text: reading order, rotation, running headers, headings from the outline, notes and metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pypdfium2 as pdfium
import pytest

from knowledge.extract.pdf.choose_reading import PlainReading, choose_reading
from knowledge.extract.pdf.outline import PdfOutline
from knowledge.extract.pdf.repairs.pages import RunningHeaders
from knowledge.extract.pdf.repairs.tables import LineCell
from knowledge.extract.pdf.repairs.words import correct_ligatures, expand_ligatures, join_torn_words
from tests.data.extract import documents
from tests.data.extract.read_sample import join_text, read_pages

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
LINES = tuple(f"Line {word} of a page that somebody turned" for word in NUMBERS)


def add_page(pdf: documents.Pdf, *lines: tuple[int, str]) -> None:
    """Add a page of lines, each with its font size, from the top."""
    pdf.text(*((72, 800 - 40 * place, size, words) for place, (size, words) in enumerate(lines)))


def test_running_headers_come_once_and_chapter_headings_always(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    for number in (1, 2, 3):
        add_page(
            pdf,
            (9, f"Harbour Gazette {number}"),
            (22, f"Chapter {7 * number}"),
            *((11, f"The {word} sentence of part {number} has its own words.") for word in NUMBERS),
            (9, f"Page {number} of 3"),
        )
    pages = [page.text for page in read_pages(tmp_path, "a.pdf", pdf.to_bytes())[1]]
    assert [f"# Chapter {7 * number}" in text for number, text in enumerate(pages, start=1)] == [True, True, True]
    assert ["Gazette" in text for text in pages] == [True, False, False]
    assert ["Page" in text for text in pages] == [True, False, False]


def test_a_long_notice_at_the_foot_of_every_page_comes_once() -> None:
    running, notice = RunningHeaders(), "All rights are reserved, and nothing may be copied in any form. " * 5
    words = "\n".join(f"The {word} sentence." for word in NUMBERS)
    pages = [running.strip_page(f"{words}\nWords of page {number}.\n{notice}", number) for number in (1, 2, 3)]
    assert ["reserved" in page for page in pages] == [True, False, False]


def test_a_table_over_several_pages_keeps_its_header_on_every_page() -> None:
    running = RunningHeaders()
    pages = [running.strip_page(f"| Name | Price |\n| --- | --- |\n| Tea {page} | 12 |", page) for page in (1, 2)]
    assert all(page.startswith("| Name | Price |") for page in pages)


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
def test_a_rotated_page_is_read_in_order(tmp_path: Path, turned: int) -> None:
    pdf = documents.Pdf()
    pdf.text(*((72, 700 - 20 * place, 11, line) for place, line in enumerate(LINES)), rotate=turned)
    text = join_text(read_pages(tmp_path, "a.pdf", pdf.to_bytes())[1])
    places = [text.find(line) for line in LINES]
    assert -1 not in places
    assert places == sorted(places)


def test_vertical_lines_are_read_in_order(tmp_path: Path) -> None:
    drawn = (
        b"BT /F1 11 Tf 0 1 -1 0 %d 72 Tm (%s) Tj ET" % (100 + 20 * place, line.encode())
        for place, line in enumerate(LINES)
    )
    pdf = documents.Pdf()
    pdf.page(b"\n".join(drawn))
    text = join_text(read_pages(tmp_path, "a.pdf", pdf.to_bytes())[1])
    places = [text.find(line) for line in LINES]
    assert -1 not in places
    assert places == sorted(places)


def test_a_right_to_left_page_keeps_its_order() -> None:
    hebrew = "שלום עולם וברוכים הבאים לספר החדש"
    assert (
        choose_reading(
            " ".join(reversed(hebrew.split())), PlainReading(hebrew), rotated=False, find_cells=find_no_cells
        )
        == hebrew
    )


def find_no_cells(lines: Sequence[str]) -> list[list[LineCell]]:
    return [[] for _ in lines]


def test_a_right_to_left_line_on_a_left_to_right_page_keeps_its_order() -> None:
    english, hebrew = "The breakwater was surveyed in spring by everybody. " * 5, "שלום עולם וברוכים הבאים."
    structured = f"{english}{' '.join(reversed(hebrew.split()))} The end."
    text = choose_reading(
        structured, PlainReading(f"{english}\n{hebrew}\nThe end."), rotated=False, find_cells=find_no_cells
    )
    assert text == f"{english}{hebrew} The end."


def test_annotations_are_part_of_their_page(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    notes = [
        pdf.add(b"<< /Type /Annot /Subtype /%s /Rect [72 600 300 620] /Contents (%s) >>" % (kind, words))
        for kind, words in (
            (b"Text", b"Ask the harbour master"),
            (b"FreeText", b"Approved"),
            (b"Link", b"Nobody wrote this"),
        )
    ]
    pdf.text((72, 760, 12, "The breakwater is to be mended in spring"))
    listed = b" ".join(b"%d 0 R" % number for number in notes)
    data = pdf.to_bytes().replace(b"/Type /Page /", b"/Annots [%s] /Type /Page /" % listed)
    text = join_text(read_pages(tmp_path, "a.pdf", data)[1])
    assert "Note: Ask the harbour master\n\nNote: Approved" in text
    assert "Nobody wrote this" not in text


def test_placeholder_metadata_is_ignored(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    pdf.text((72, 760, 12, "The breakwater is to be mended in spring"))
    pdf.info = b"/Title (untitled) /Author (anonymous) /Subject (\\(unspecified\\))"
    facts, _ = read_pages(tmp_path, "a.pdf", pdf.to_bytes())
    assert (facts.title, facts.author, facts.metadata.get("subject")) == (None, None, None)


def test_similar_pages_of_a_few_lines_keep_them(tmp_path: Path) -> None:
    pdf = documents.Pdf()
    for number in range(1, 5):
        add_page(pdf, (11, f"Page {number} tells of the river in year {number}"), (11, "The water was high."))
    pages = [page.text for page in read_pages(tmp_path, "a.pdf", pdf.to_bytes())[1]]
    assert [f"river in year {number}" in text for number, text in enumerate(pages, start=1)] == [True] * 4


def test_numbers_that_are_no_page_numbers_stay() -> None:
    running = RunningHeaders()
    body = "\n".join(f"a line of the {word} kind" for word in NUMBERS)
    pages = [running.strip_page(f"{year}\n{body} on {year}\n- {page} -", page) for page, year in ((1, 1990), (2, 2024))]
    assert pages[1].startswith("2024\n") and not pages[1].endswith("- 2 -")


def read_outline(*entries: str) -> PdfOutline:
    """Read the outline of a document of one page."""
    pdf = documents.Pdf()
    pdf.text((72, 720, 11, "words"))
    pdf.outline(*((entry, 1) for entry in entries))
    return PdfOutline(pdfium.PdfDocument(pdf.to_bytes()))


def test_chapters_with_the_same_title_are_all_headings() -> None:
    text = read_outline("Rules", "Prices", "Rules").apply_headings(
        0, "1 Rules\n\nNone.\n\n2 Prices\n\nMany.\n\n3 Rules\n\nSome."
    )
    assert [line for line in text.split("\n") if line.startswith("#")] == ["# 1 Rules", "# 2 Prices", "# 3 Rules"]


def test_a_heading_merged_with_the_next_line_is_separated() -> None:
    both = "## The first chapter The Second Chapter\n\nPreface It was winter.\n\nPreface it was not."
    assert read_outline("The first chapter", "The second chapter", "Preface").apply_headings(0, both).split("\n\n") == [
        "# The first chapter", "# The Second Chapter", "# Preface", "It was winter.", "Preface it was not.",
    ]  # fmt: skip


def test_an_outline_entry_matches_the_heading_and_not_the_table_of_contents() -> None:
    text = read_outline("Rules", "Prices").apply_headings(
        0, "I. Rules\n\nA. Prices\n\n## I. RULES\n\nNone.\n\n## A. PRICES"
    )
    assert text.split("\n\n") == ["I. Rules", "A. Prices", "# I. RULES", "None.", "# A. PRICES"]


def test_a_word_hyphenated_across_blocks_is_joined() -> None:
    plain = "The rules can be introduced at any time.\nThe half-truth stays."
    structured = "## The rules can be in-\n\n**troduced at any time.**\n\nThe half-\n\ntruth stays."
    assert (
        join_torn_words(structured, plain)
        == "**The rules can be introduced at any time.**\n\nThe half-\n\ntruth stays."
    )


def test_a_heading_longer_than_its_outline_entry_stays_whole() -> None:
    assert read_outline("Rules").apply_headings(0, "# Rules Of The Harbour") == "# Rules\n\n# Rules Of The Harbour"


def test_ligatures_of_a_font_without_a_character_table_are_letters() -> None:
    text, words = expand_ligatures("o\x1ecial forti\x1ccations re\x1dect Gröÿe, \x1du\x1by")
    assert text == "official fortifications reflect Größe, fluffy"
    structured = "official forti cations fortications reThect Thufty, the day"
    assert correct_ligatures(structured, words, f"{text} the day") == (
        "official forti cations fortifications reflect fluffy, the day"
    )
    assert expand_ligatures("x \x1c y, \x1cy") == ("x \x1c y, \x1cy", {})
    assert expand_ligatures("e\x0bort of \x0clms\nand \row")[0] == "effort of films\nand flow"
