"""Titles of PDFs."""

from __future__ import annotations

import pytest

from knowledge.extract.pdf.document_title import find_pdf_title

HEADING = "Some words\n\n## **Tides** of the harbour\n\nText"


def test_a_title_in_the_metadata_is_used() -> None:
    assert find_pdf_title("Tide tables 2026", "a.pdf", [HEADING]) == "Tide tables 2026"


@pytest.mark.parametrize(
    "junk",
    [
        None, "", "Microsoft PowerPoint - tides.pptx", "PowerPoint Presentation", "Document1", "untitled-2", "Slide 1",
        "tides_final", "Tides Final.pdf", "C:\\Users\\ada\\tides.ps", "file:///tmp/tides", "scan0001", "20240311",
        "title", "/home/ada/tides", "TIDES-2024_report_scan",
    ],
)  # fmt: skip
def test_a_title_that_a_program_wrote_gives_way_to_the_first_heading(junk: str | None) -> None:
    assert find_pdf_title(junk, "tides-final.pdf", ["", HEADING]) == "Tides of the harbour"


def test_without_a_heading_the_file_name_is_left() -> None:
    assert find_pdf_title("untitled", "tides.pdf", ["Only text", "# 12"]) is None


@pytest.mark.parametrize(
    "title", ["Print culture in Venice", "Documenting the river", "Titles and deeds", "1984 revisited"]
)
def test_a_title_that_begins_like_junk_is_kept(title: str) -> None:
    assert find_pdf_title(title, "a.pdf", [HEADING]) == title
