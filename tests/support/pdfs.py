"""PDFs with known paragraphs: where each one is, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from knowledge.model.pages import Box
from tests.data.extract import documents

A4_WIDTH, A4_HEIGHT = documents.A4
FONT_SIZE, LEADING = 11, 15
SUBJECTS = ("harbour", "orchard", "lighthouse", "bakery", "observatory", "railway", "monastery", "quarry")
VERBS = ("opens", "closes", "repairs", "measures", "collects", "forgets", "announces", "protects")
OBJECTS = ("lanterns", "barrels", "letters", "engines", "telescopes", "loaves", "bridges", "ledgers")


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str
    box: Box
    """On the page as it is drawn, as shares."""


def write_sentences(seed: int, count: int) -> list[str]:
    """Return sentences that no other seed has, each short enough for one line of a column."""
    return [
        f"The {SUBJECTS[(seed + place) % 8]} {VERBS[(seed * 3 + place) % 8]} {seed}{place} "
        f"{OBJECTS[(seed + 5 * place) % 8]} daily."
        for place in range(count)
    ]


def place_lines(x: int, top: int, lines: list[str]) -> list[tuple[int, int, int, str]]:
    """Return lines for `Pdf.text`, downwards from a distance to the top of the page."""
    return [(x, A4_HEIGHT - top - LEADING * number, FONT_SIZE, line) for number, line in enumerate(lines)]


def make_box(x: int, top: int, lines: list[str], width: int = 250) -> Box:
    """Return the box of lines placed by `place_lines`."""
    bottom = top + LEADING * (len(lines) - 1)
    return x / A4_WIDTH, (top - FONT_SIZE) / A4_HEIGHT, (x + width) / A4_WIDTH, (bottom + 4) / A4_HEIGHT


def turn_box(box: Box, rotate: int) -> Box:
    """Return where a box is on a page that is shown with /Rotate."""
    left, top, right, bottom = box
    match rotate:
        case 90:
            return 1 - bottom, left, 1 - top, right
        case 180:
            return 1 - right, 1 - bottom, 1 - left, 1 - top
        case 270:
            return top, 1 - right, bottom, 1 - left
    return box


def make_columns(columns: int, rotate: int = 0) -> tuple[bytes, list[Paragraph]]:
    """Return a PDF of one page with paragraphs in one or two columns, and the paragraphs."""
    pdf, drawn, paragraphs = documents.Pdf(), [], []
    for column in range(columns):
        for row in range(3):
            seed, x, top = 1 + 3 * column + row, 60 + 270 * column, 100 + 230 * row
            lines = write_sentences(seed, 9)
            drawn += place_lines(x, top, lines)
            paragraphs.append(Paragraph(" ".join(lines), turn_box(make_box(x, top, lines), rotate)))
    pdf.text(*drawn, rotate=rotate)
    return pdf.to_bytes(), paragraphs


TABLE_ROWS = (
    ("Product", "Month", "Crates", "Buyer"),
    ("Apples", "January", "118", "Northgate"),
    ("Pears", "February", "27", "Southbridge"),
    ("Plums", "March", "340", "Eastfield"),
    ("Quinces", "April", "9", "Westwood"),
    ("Medlars", "May", "61", "Midtown"),
)


def make_table(by_column: bool = False) -> tuple[bytes, Paragraph, list[Paragraph]]:
    """Return a PDF with a ruled table between two paragraphs; its cells are stored by row or by column."""
    pdf = documents.Pdf()
    above, below = write_sentences(11, 5), write_sentences(12, 5)
    rules = []
    cells = [
        (60 + 120 * column, A4_HEIGHT - 250 - 24 * row, FONT_SIZE, cell)
        for row, listed in enumerate(TABLE_ROWS)
        for column, cell in enumerate(listed)
    ]
    if by_column:
        cells.sort(key=lambda cell: (cell[0], -cell[1]))
    for row in range(len(TABLE_ROWS) + 1):
        y = A4_HEIGHT - 234 - 24 * row
        rules.append(b"55 %d m 535 %d l S" % (y, y))
    for column in range(5):
        x = 55 + 120 * column
        rules.append(b"%d %d m %d %d l S" % (x, A4_HEIGHT - 234, x, A4_HEIGHT - 234 - 24 * len(TABLE_ROWS)))
    lines = [*place_lines(60, 100, above), *cells, *place_lines(60, 480, below)]
    text = [b"BT /F1 %d Tf %d %d Td (%s) Tj ET" % (size, x, y, words.encode()) for x, y, size, words in lines]
    pdf.page(b"\n".join([*rules, *text]))
    box = (55 / A4_WIDTH, 234 / A4_HEIGHT, 535 / A4_WIDTH, (234 + 24 * len(TABLE_ROWS)) / A4_HEIGHT)
    table = Paragraph(" ".join(cell for row in TABLE_ROWS for cell in row), box)
    around = [
        Paragraph(" ".join(above), make_box(60, 100, above)),
        Paragraph(" ".join(below), make_box(60, 480, below)),
    ]
    return pdf.to_bytes(), table, around


SCAN_SIZE = (1654, 2339)


def draw_scan(turned: float = 0) -> tuple[Image.Image, list[Paragraph]]:
    """Return the picture of a page with two paragraphs, and the paragraphs as they are without turning."""
    image = Image.new("L", SCAN_SIZE, 255)
    pen, font, paragraphs = ImageDraw.Draw(image), ImageFont.load_default(38), []
    for number, top in enumerate((300, 1300)):
        lines = write_sentences(21 + number, 10)
        for row, line in enumerate(lines):
            pen.text((200, top + 62 * row), line, fill=0, font=font)
        box = (190 / SCAN_SIZE[0], (top - 10) / SCAN_SIZE[1], 1500 / SCAN_SIZE[0], (top + 630) / SCAN_SIZE[1])
        paragraphs.append(Paragraph(" ".join(lines), box))
    return (image.rotate(turned, fillcolor=255, expand=True) if turned else image), paragraphs


def make_scan(turned: float = 0) -> tuple[bytes, list[Paragraph]]:
    """Return a PDF of one page that is a picture of text."""
    image, paragraphs = draw_scan(turned)
    pdf = documents.Pdf()
    pdf.picture(image)
    return pdf.to_bytes(), paragraphs
