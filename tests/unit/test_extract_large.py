"""The memory of the server does not grow with the document, because pages are streamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.extract.base import Source
from knowledge.extract.process.parsers import Parsers
from knowledge.extract.process.process_memory import read_resident_bytes
from tests.data.extract import documents

MAX_GROWTH_BYTES = 60 << 20


@pytest.fixture
def parsers() -> Iterator[Parsers]:
    with Parsers() as started:
        yield started


def through(parsers: Parsers, source: Source) -> tuple[int, int]:
    """Return the number of pages and the growth of this process in bytes."""
    before = largest = read_resident_bytes(os.getpid())
    count = 0
    with parsers.parse(source) as parsing:
        for page in parsing:
            count += bool(page.text)
            largest = max(largest, read_resident_bytes(os.getpid()))
    return count, largest - before


def test_a_pdf_of_a_thousand_pages_passes_through(parsers: Parsers, tmp_path: Path) -> None:
    pdf = documents.Pdf()
    for number in range(1000):
        pdf.text(*((72, 760 - 14 * line, 10, f"Page {number}, line {line} of the long report") for line in range(40)))
    path = tmp_path / "long.pdf"
    path.write_bytes(pdf.to_bytes())
    del pdf
    count, growth = through(parsers, Source(path, "long.pdf"))
    assert count == 1000
    assert growth < MAX_GROWTH_BYTES


@pytest.mark.long
def test_a_text_of_a_hundred_megabytes_passes_through(parsers: Parsers, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    with path.open("w") as file:
        for number in range(100_000):
            file.write(f"Paragraph {number} of the long text. " * 32 + "\n\n")
    assert path.stat().st_size > 100 << 20
    count, growth = through(parsers, Source(path, "long.txt"))
    assert count >= 400
    assert growth < MAX_GROWTH_BYTES
