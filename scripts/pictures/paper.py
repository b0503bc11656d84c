"""Sets the pages of the sample paper as a PDF: two justified columns, a figure and a table."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

WIDTH, HEIGHT = 595, 842
MARGIN, GUTTER = 54, 22
COLUMN = (WIDTH - 2 * MARGIN - GUTTER) / 2
TOP, BOTTOM = 60, 70
SIZE, LEADING = 9.6, 12.4
FONTS = {"R": "Times-Roman", "B": "Times-Bold", "I": "Times-Italic"}
# Widths of Times-Roman from the space to the tilde in thousandths of the size (Adobe's Core 14 font metrics).
WIDTHS = [
    250, 333, 408, 500, 500, 833, 778, 180, 333, 333, 500, 564, 250, 333, 250, 278, 500, 500, 500, 500,
    500, 500, 500, 500, 500, 500, 278, 278, 564, 564, 564, 444, 921, 722, 667, 667, 722, 611, 556, 722,
    722, 333, 389, 722, 611, 889, 722, 722, 556, 722, 667, 556, 611, 722, 722, 944, 722, 722, 611, 333,
    278, 333, 469, 500, 333, 444, 500, 444, 500, 444, 333, 500, 500, 278, 278, 500, 278, 778, 500, 500,
    500, 500, 333, 389, 278, 500, 500, 722, 500, 500, 444, 480, 200, 480, 541,
]  # fmt: skip


def measure(text: str, size: float) -> float:
    return sum(WIDTHS[ord(char) - 32] if 32 <= ord(char) < 127 else 500 for char in text) * size / 1000


def break_lines(text: str, width: float, size: float) -> list[str]:
    """Break a paragraph into lines that fit."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if measure(longer, size) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


@dataclass
class Sheet:
    """The drawing operators of one page."""

    operators: list[str] = field(default_factory=list)

    def write(self, x: float, y: float, text: str, *, size: float = SIZE, font: str = "R", fill: float = 0) -> None:
        """Write one line; `y` counts from the top of the page, and `fill` is the width to stretch the line to."""
        gaps = text.count(" ")
        spacing = (fill - measure(text, size)) / gaps if fill and gaps else 0
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        self.operators.append(f"BT /{font} {size} Tf {spacing:.3f} Tw {x:.2f} {HEIGHT - y:.2f} Td ({escaped}) Tj ET")

    def line(self, points: Sequence[tuple[float, float]], *, width: float = 0.6, grey: float = 0) -> None:
        (x, y), *rest = points
        path = [f"{x:.2f} {HEIGHT - y:.2f} m", *(f"{x:.2f} {HEIGHT - y:.2f} l" for x, y in rest)]
        self.operators.append(f"{width} w {grey} G {' '.join(path)} S 0 G")


@dataclass
class Paper:
    """Flows paragraphs through two columns and over pages."""

    title: str
    sheets: list[Sheet] = field(default_factory=lambda: [Sheet()])
    column: int = 0
    y: float = TOP
    top: float = TOP
    """Where the columns of this page begin, below the title on the first one."""

    @property
    def sheet(self) -> Sheet:
        return self.sheets[-1]

    @property
    def x(self) -> float:
        return MARGIN + self.column * (COLUMN + GUTTER)

    def open(self, authors: str, place: str, abstract: str) -> None:
        """Write the title, the authors and the abstract across both columns."""
        y = 84.0
        self.sheet.write(MARGIN, y, self.title, size=20, font="B")
        self.sheet.write(MARGIN, y + 24, authors, size=11)
        self.sheet.write(MARGIN, y + 39, place, size=9.5, font="I")
        y += 66
        width = WIDTH - 2 * MARGIN
        *lines, last = break_lines(abstract, width, 9.6)
        for line in lines:
            self.sheet.write(MARGIN, y, line, fill=width)
            y += LEADING
        self.sheet.write(MARGIN, y, last)
        y += LEADING
        self.y = self.top = y + 16

    def need(self, height: float) -> None:
        """Go to the next column or page if this much does not fit."""
        if self.y + height <= HEIGHT - BOTTOM:
            return
        if self.column == 0:
            self.column, self.y = 1, self.top
        else:
            self.sheets.append(Sheet())
            self.column, self.y, self.top = 0, TOP, TOP

    def heading(self, text: str) -> None:
        self.need(5 * LEADING)
        self.y += 0 if self.y == self.top else 7
        self.sheet.write(self.x, self.y, text, size=11.5, font="B")
        self.y += LEADING + 3

    def paragraph(self, text: str) -> None:
        lines = break_lines(text, COLUMN, SIZE)
        for number, line in enumerate(lines):
            self.need(2 * LEADING if number == 0 or number == len(lines) - 2 else LEADING)  # no line stands alone
            self.sheet.write(self.x, self.y, line, fill=COLUMN if number < len(lines) - 1 else 0)
            self.y += LEADING
        self.y += 5

    def plot(self, curves: Sequence[Sequence[float]], months: str, caption: str, *, height: float = 110) -> None:
        """Draw curves of values from 0 to 1 over the months of a year."""
        self.need(height + 50)
        left, right, top, bottom = self.x + 22, self.x + COLUMN - 4, self.y, self.y + height
        for share in (0, 0.25, 0.5, 0.75, 1):
            y = bottom - share * (height - 8)
            self.sheet.line([(left, y), (right, y)], width=0.3, grey=0.8)
            self.sheet.write(self.x, y + 2.5, f"{60 + 40 * share:.0f} %", size=7)
        for place, month in enumerate(months):
            self.sheet.write(left + (place + 0.5) * (right - left) / len(months) - 2, bottom + 10, month, size=7)
        for curve, grey in zip(curves, (0, 0.55), strict=False):
            step = (right - left) / (len(curve) - 1)
            drawn = [(left + place * step, bottom - value * (height - 8)) for place, value in enumerate(curve)]
            self.sheet.line(drawn, width=1.3, grey=grey)
        self.sheet.line([(left, top), (left, bottom), (right, bottom)])
        self.y = bottom + 24
        for line in break_lines(caption, COLUMN, 8.4):
            self.sheet.write(self.x, self.y, line, size=8.4, font="I")
            self.y += 10.4
        self.y += 9

    def table(self, rows: Sequence[Sequence[str]], caption: str) -> None:
        self.need((len(rows) + 3) * 13)
        for line in break_lines(caption, COLUMN, 8.4):
            self.sheet.write(self.x, self.y, line, size=8.4, font="I")
            self.y += 10.4
        self.y += 4
        stops = [0.0, *(COLUMN * (0.46 + 0.2 * place) for place in range(len(rows[0]) - 1))]
        for number, row in enumerate(rows):
            if number < 2:
                self.sheet.line([(self.x, self.y - 9), (self.x + COLUMN, self.y - 9)], width=0.7)
            for stop, cell in zip(stops, row, strict=True):
                self.sheet.write(self.x + stop, self.y, cell, size=8.8, font="R" if number else "B")
            self.y += 13
        self.sheet.line([(self.x, self.y - 9), (self.x + COLUMN, self.y - 9)], width=0.7)
        self.y += 10

    def to_bytes(self, author: str) -> bytes:
        """Number the pages and return the file."""
        objects: list[bytes] = []

        def add(body: bytes) -> int:
            objects.append(body)
            return len(objects)

        about = "/Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding"
        numbers = {name: add(f"<< {about} /BaseFont /{font} >>".encode()) for name, font in FONTS.items()}
        fonts = " ".join(f"/{name} {number} 0 R" for name, number in numbers.items())
        tree, pages = add(b""), []
        for number, sheet in enumerate(self.sheets, start=1):
            sheet.write(WIDTH / 2 - 3, HEIGHT - 38, str(number), size=9)
            content = zlib.compress("\n".join(sheet.operators).encode("cp1252"))
            body = add(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(content), content))
            pages.append(add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents {body} 0 R "
                f"/Resources << /Font << {fonts} >> >> >>".encode()
            ))  # fmt: skip
        kids = " ".join(f"{page} 0 R" for page in pages)
        objects[tree - 1] = f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode()
        catalog = add(f"<< /Type /Catalog /Pages {tree} 0 R /Lang (en-GB) >>".encode())
        info = add(f"<< /Title ({self.title}) /Author ({author}) >>".encode())
        out, places = bytearray(b"%PDF-1.7\n"), []
        for number, body_bytes in enumerate(objects, start=1):
            places.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (number, body_bytes)
        start, size = len(out), len(objects) + 1
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        out += b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
        out += b"trailer\n<< /Size %d /Root %d 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF" % (
            size,
            catalog,
            info,
            start,
        )
        return bytes(out)
