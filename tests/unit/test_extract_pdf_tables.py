"""Tables in PDFs become Markdown tables, with and without drawn lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pypdfium2
import pytest

from knowledge.extract.pdf.repairs.tables import (
    CellFinder,
    LineCell,
    build_table_rows,
    restore_borderless_tables,
    separate_rows,
)
from tests.data.extract.documents import Pdf
from tests.data.extract.read_sample import read_pages

WARES = [
    ("Ware", "Origin", "Price", "Stock"),
    ("Tea", "Assam", "12.50", "1,040"),
    ("Coffee", "Bourbon Island", "8.00", "977"),
    ("Cocoa", "Guayaquil", "9.75", "31"),
]
COLUMNS = (72, 180, 320, 420)
TOP, HEIGHT = 640, 20


def make_table_page(ruled: bool) -> bytes:
    """Make a page with a table between two sentences."""
    pdf = Pdf()
    lines = [(72, 720, 18, "Prices"), (72, 690, 11, "What the harbour asked for its wares in that year.")]
    for place, cells in enumerate(WARES):
        lines += [(x, TOP - HEIGHT * place, 11, words) for x, words in zip(COLUMNS, cells, strict=True)]
    lines.append((72, 520, 11, "All prices are in crowns and hold until the end of the winter."))
    rules = [b"66 %d m 500 %d l S" % (y, y) for y in range(TOP + 14, TOP - HEIGHT * len(WARES), -HEIGHT)]
    rules += [b"%d %d m %d %d l S" % (x, TOP + 14, x, TOP - 66) for x in (66, 174, 314, 414, 500)]
    words = [b"BT /F1 %d Tf %d %d Td (%s) Tj ET" % (size, x, y, said.encode()) for x, y, size, said in lines]
    pdf.page(b"\n".join([*(rules if ruled else []), *words]))
    return pdf.to_bytes()


@pytest.mark.parametrize("ruled", [True, False])
def test_the_cells_of_a_row_are_in_one_line(tmp_path: Path, ruled: bool) -> None:
    _, [page] = read_pages(tmp_path, "a.pdf", make_table_page(ruled))
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in page.text.split("\n") if "|" in line]
    assert [row for row in rows if set("".join(row)) - {"-"}] == WARES
    assert page.text.index("in that year.") < page.text.index("| Tea") < page.text.index("All prices")


def test_merged_rows_are_separated() -> None:
    structured = (
        "| Ware Tea | Price 12 | Stock 0 |\n|---|---|---|\n| Coffee Cocoa beans | 8 9 | 0 0 |\n| Total | 29 | 0 |"
    )
    plain = "Ware Price Stock\nTea 12 0\nCoffee 8 0\nCocoa beans 9 0\nTotal 29 0"
    assert separate_rows(structured, plain).split("\n") == [
        "| Ware | Price | Stock |",
        "|---|---|---|",
        "| Tea | 12 | 0 |",
        "| Coffee | 8 | 0 |",
        "| Cocoa beans | 9 | 0 |",
        "| Total | 29 | 0 |",
    ]


def test_a_cell_of_two_lines_stays_together() -> None:
    structured = "| Ware | Origin | Use |\n|---|---|---|\n| Green tea | China, by ship | hot drinks, medicine |"
    plain = "Ware Origin Use\nGreen China, by hot drinks,\ntea ship medicine"
    assert separate_rows(structured, plain) == structured


def test_lines_of_prose_are_no_rows() -> None:
    structured = "| 2 | Rules |\n|---|---|\n| The | rules are what the har- |\n| bour | asks for. |"
    assert separate_rows(structured, "2 Rules\nThe rules are what the harbour asks for.") == (
        "2 Rules\nThe rules are what the har-\nbour asks for."
    )


def test_the_last_line_of_a_paragraph_is_no_header() -> None:
    structured = (
        "What the harbour\n\n|  | asked for its wares. |  |\n|---|---|---|\n| Ware | Price | Stock |\n| Tea | 12 | 4 |"
    )
    plain = "What the harbour\nasked for its wares.\nWare Price Stock\nTea 12 4"
    assert separate_rows(structured, plain) == (
        "What the harbour asked for its wares.\n\n| Ware | Price | Stock |\n|---|---|---|\n| Tea | 12 | 4 |"
    )


def find_word_cells(lines: Sequence[str]) -> list[list[LineCell]]:
    """Return every word as a cell."""
    return [[LineCell(100 * x, 100 * x + 50, word) for x, word in enumerate(line.split())] for line in lines]


STOCK = "|Stock|\n|---|\n|7|\n|8|"
TORN = f"# Waves\n\nThe sea in spring. Ware Tea Cocoa\n\n# What follows\n\nPrice 12 9\n\n{STOCK}\n\nTea is dear."
ROWS = "Ware Price Stock\nTea 12 7\nCocoa 9 8"


def test_a_table_read_by_columns_gets_its_rows_and_its_place() -> None:
    text = restore_borderless_tables(
        TORN, f"Waves\nThe sea in spring.\n{ROWS}\nWhat follows\nTea is dear.", find_word_cells
    )
    assert text.split("\n\n") == [
        "# Waves",
        "The sea in spring.",
        "| Ware | Price | Stock |\n| --- | --- | --- |\n| Tea | 12 | 7 |\n| Cocoa | 9 | 8 |",
        "# What follows",
        "Tea is dear.",
    ]


def test_a_table_takes_no_words_from_other_lines_or_from_half_of_another_table() -> None:
    for structured in (TORN.replace("Price 12", "It cost 12"), TORN.replace("|8|", "|8|\n|Sum 15|")):
        assert restore_borderless_tables(structured, f"Waves\n{ROWS}\nWhat follows", find_word_cells) == structured


def test_two_columns_of_prose_are_no_table() -> None:
    line = "The breakwater was surveyed in spring", "and the wall was found to be very sound"
    assert build_table_rows([[LineCell(0, 200, line[0]), LineCell(220, 420, line[1])]] * 4) is None


def test_cells_are_separated_by_wide_gaps() -> None:
    with pypdfium2.PdfDocument(make_table_page(ruled=False)) as document:
        [cells] = CellFinder(document[0])(["Coffee Bourbon Island 8.00 977"])
    assert [cell.words for cell in cells] == list(WARES[2])
    assert [round(cell.left) for cell in cells] == pytest.approx(COLUMNS, abs=1)


def test_a_row_with_an_empty_cell_keeps_its_columns() -> None:
    rows = find_word_cells(["Ware Price Stock", "Tea 12 7", "Cocoa 9 8"])
    assert build_table_rows([*rows, [rows[0][0], LineCell(210, 240, "15")]]) == [
        ["Ware", "Price", "Stock"], ["Tea", "12", "7"], ["Cocoa", "9", "8"], ["Ware", "", "15"],
    ]  # fmt: skip
