"""Compare our spreadsheet and RTF readers with python-calamine and striprtf: cells and lines found, and CPU time.

    pip install python-calamine==0.9.0 striprtf==0.0.35
    PYTHONPATH=. python benchmarks/readers.py [FOLDER]

The samples are small documents with one feature each. FOLDER adds the spreadsheets and RTF files of a corpus with
`expect.json` (see formats.py). A sample passes if the text contains what Excel, LibreOffice or Word shows for it.
The decisions based on this are docs/decisions/0014 and 0015.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import cast

from expectations import Expectation, ExtractedDocument, score_document
from knowledge.extract import markdown_tables
from knowledge.extract.base import Source
from knowledge.extract.clean_text import clean_text
from knowledge.extract.formats import extract
from tests.data.extract import documents

SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "extract"
SPREADSHEET_SUFFIXES = (".xlsx", ".xls", ".ods")
TIMED_ROWS, TIMED_COLUMNS, ROUNDS = 20_000, 10, 5

Reader = Callable[[Source], str]


@dataclass(frozen=True, slots=True)
class Sample:
    filename: str
    about: str
    content: bytes
    shown: tuple[str, ...]


def read_with_ours(source: Source) -> str:
    pages = extract(source).pages
    return clean_text("\n\n".join(page.text for page in pages))


def read_with_calamine(source: Source) -> str:
    import python_calamine

    with python_calamine.load_workbook(io.BytesIO(source.read())) as book:
        return "\n\n".join(f"## {name}\n\n{_format_sheet(book.get_sheet_by_name(name))}" for name in book.sheet_names)


def _format_sheet(sheet: object) -> str:
    rows = sheet.iter_rows()  # type: ignore[attr-defined]
    above, table = markdown_tables.split_at_header([_format_value(value) for value in row] for row in rows)
    return above + "\n\n".join(markdown_tables.format_table_pieces(table))


def _format_value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if isinstance(value, date | datetime):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return str(value)


def read_with_striprtf(source: Source) -> str:
    from striprtf.striprtf import rtf_to_text

    return clean_text(cast(str, rtf_to_text(source.read().decode("latin-1"), errors="replace")))


def make_spreadsheets() -> Iterator[Sample]:
    def words(place: str, text: str) -> str:
        return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'

    def book(inner: str, *formats: str) -> bytes:
        return documents.make_xlsx({"One": f'<row r="1">{words("A1", "Tea")}{inner}</row>'}, formats)

    def number(value: str) -> str:
        return f'<c r="B1" s="1"><v>{value}</v></c>'

    yield Sample("a.xlsx", "percentage", book(number("0.256"), "0.0%"), ("| Tea | 25.6% |",))
    yield Sample("a.xlsx", "currency", book(number("1599.5"), "$#,##0.00"), ("| Tea | $1,599.50 |",))
    yield Sample("a.xlsx", "zero-padded code", book(number("1067"), "00000"), ("| Tea | 01067 |",))
    yield Sample("a.xlsx", "date", book(number("45413"), "yyyy-mm-dd"), ("| Tea | 2024-05-01 |",))
    yield Sample("a.xlsx", "time of day", book(number("0.5729166666666666"), "h:mm"), ("| Tea | 13:45",))
    yield Sample("a.xlsx", "time with a hidden date", book(number("45413.5"), "h:mm"), ("| Tea | 12:00",))
    yield Sample("a.xlsx", "duration", book(number("1.75"), "[h]:mm:ss"), ("| Tea | 42:00:00 |",))
    yield Sample("a.xlsx", "rounding residue", book('<c r="B1"><v>1.7000000000000002</v></c>'), ("| Tea | 1.7 |",))
    yield Sample("a.xlsx", "formula without a cached value", book('<c r="B1"><f>SUM(B2:B3)</f></c>'), ("=SUM(B2:B3)",))
    harbour = gzip.decompress((SAMPLES / "harbour.xls.gz").read_bytes())
    shown = ("| Tea | 12.5 | 25.6% | 2024-05-01 |", "| Total | 20.5 |")
    yield from (Sample("a.xls", f"harbour row {row + 1}", harbour, (text,)) for row, text in enumerate(shown))
    times = documents.make_xls(["h:mm", "[h]:mm:ss"], [[(0, 0.5), (1, 0.5), (2, 1.25)]])
    yield Sample("a.xls", "number, time and duration", times, ("| 0.5 | 12:00", "| 30:00:00 |"))
    remark = "<office:annotation><text:p>Is that so?</text:p></office:annotation><text:p>12</text:p>"
    cells = {
        "comment": (f"<table:table-cell>{remark}</table:table-cell>", "Is that so?"),
        "formula without a cached value": ('<table:table-cell table:formula="of:=SUM([.B2:.B3])"/>', "=SUM(B2:B3)"),
        "percentage": (
            '<table:table-cell office:value-type="percentage" office:value="0.25"><text:p>25%</text:p>'
            "</table:table-cell>",
            "| 25% |",
        ),
        "date": (
            '<table:table-cell office:value-type="date" office:date-value="2024-05-01"/>',
            "| 2024-05-01 |",
        ),
    }
    for about, (cell, text) in cells.items():
        table = f'<table:table table:name="One"><table:table-row>{cell}</table:table-row></table:table>'
        sheet = documents.make_opendocument("spreadsheet", f"<office:spreadsheet>{table}</office:spreadsheet>")
        yield Sample("a.ods", about, sheet, (text,))


def make_rtf() -> Iterator[Sample]:
    head = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset0 A;}{\f1\fcharset128 M;}{\f2\fcharset204 R;}}"
    head += r"{\stylesheet{\s0 Normal;}{\s1 heading 1;}{\s5 Title;}}{\info{\title Harbour handbook}}"

    def sample(about: str, body: str, *shown: str) -> Sample:
        return Sample("a.rtf", about, (head + body + "}").encode("ascii"), shown)

    yield sample("plain text", r"\pard Tea costs twelve.\par", "Tea costs twelve.")
    yield sample("heading", r"\pard\s1 Rules\par\pard\s0 None.\par", "# Rules\n")
    yield sample("title", r"\pard\s5 Of ships\par\pard\s0 Words.\par", "# Of ships\n")
    row = r"\trowd\cellx2160\cellx4320\pard\intbl {}\cell {}\cell\row"
    yield sample(
        "table", row.format("Ware", "Price") + row.format("Tea", "12"), "| Ware | Price |", "| --- |", "| Tea | 12 |"
    )
    yield sample(
        "two paragraphs in a cell",
        r"\trowd\cellx2160\cellx4320{{\pard\intbl Tea\par}{\pard\intbl from Assam\par}\cell}{\pard\intbl 12\cell}\row",
        "Tea from Assam | 12",
    )
    yield sample("bullet list", r"\pard{\listtext\'b7\tab}first\par", "- first")
    yield sample("numbered list", r"\pard{\listtext 2.\tab}second\par", "2. second")
    yield sample("footnote", r"\pard Pay{\footnote \pard Except in winter.} first.\par", "Except in winter.", "first.")
    yield sample("Shift-JIS font", r"\pard\f1\'93\'8c\'8b\'9e\par", "東京")
    yield sample("Cyrillic font", r"\pard\f2\'cf\'f0\'e8\'e2\'e5\'f2\par", "Привет")
    yield sample("Unicode", r"\pard\u8364? and \uc1\u-10179?\u-8704?\par", "€ and 😀")
    yield sample("deleted and hidden text is absent", r"\pard Seen{\v unseen}{\deleted gone} words\par", "Seen words")
    yield sample("page header and footer", r"{\header \pard Gazette\par}\pard Words\par{\footer Ada}", "Gazette", "Ada")


def make_large_xlsx(number_format: str) -> bytes:
    """Return a workbook in which every second column has the number format."""
    rows = "".join(
        f'<row r="{row}">'
        + "".join(f'<c s="{column % 2}"><v>{row * column / 8}</v></c>' for column in range(TIMED_COLUMNS))
        + "</row>"
        for row in range(1, TIMED_ROWS + 1)
    )
    return documents.make_xlsx({"One": rows}, [number_format])


def make_large_rtf() -> bytes:
    return rb"{\rtf1\ansi " + rb"\pard Tea {\b costs} twelve, \'e4 and \u8364? more.\par" * TIMED_ROWS + b"}"


def to_source(filename: str, content: bytes) -> Source:
    return Source(Path(filename), filename, content=content)


def try_read(reader: Reader, source: Source) -> str:
    try:
        return reader(source)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def print_samples(samples: list[Sample], readers: dict[str, Reader]) -> None:
    held: Counter[str] = Counter()
    for sample in samples:
        verdicts = {}
        for name, reader in readers.items():
            text = try_read(reader, to_source(sample.filename, sample.content))
            verdicts[name] = all(shown in f"{text}\n" for shown in sample.shown)
            held[name] += verdicts[name]
        marks = "  ".join(f"{name} {'yes' if good else 'NO '}" for name, good in verdicts.items())
        print(f"{Path(sample.filename).suffix[1:]:<5} {sample.about:<36} {marks}")
    print("samples: " + ", ".join(f"{name} {held[name]} of {len(samples)}" for name in readers))


def print_corpus(folder: Path, suffixes: tuple[str, ...], readers: dict[str, Reader]) -> None:
    wanted = cast(list[Expectation], json.loads((folder / "expect.json").read_text("utf-8")))
    for name, reader in readers.items():
        passed = checked = 0
        for one in wanted:
            path = folder / one["file"]
            if path.suffix in suffixes:
                text = try_read(reader, to_source(path.name, path.read_bytes()))
                headings = {line.lstrip("# ") for line in text.split("\n") if line.startswith("#")}
                score = score_document(one, ExtractedDocument("completed", text, headings=headings))
                passed, checked = passed + score.passed.total(), checked + score.checked.total()
        print(f"corpus: {name} {passed} of {checked}")


def print_times(about: str, content: bytes, readers: dict[str, Reader]) -> None:
    source = to_source(about.split()[0], content)
    for name, reader in readers.items():
        started = time.process_time()
        for _ in range(ROUNDS):
            reader(source)
        print(f"CPU: {about}: {name} {(time.process_time() - started) / ROUNDS:.3f} s for {len(content) / 1e6:.1f} MB")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path, nargs="?")
    folder = arguments.parse_args().folder
    sheet_readers: dict[str, Reader] = {"ours": read_with_ours, "python-calamine": read_with_calamine}
    rtf_readers: dict[str, Reader] = {"ours": read_with_ours, "striprtf": read_with_striprtf}
    print_samples(list(make_spreadsheets()), sheet_readers)
    if folder:
        print_corpus(folder, SPREADSHEET_SUFFIXES, sheet_readers)
    for code in ("0.00", "h:mm"):
        print_times(f"a.xlsx {code}", make_large_xlsx(code), sheet_readers)
    print_samples(list(make_rtf()), rtf_readers)
    if folder:
        print_corpus(folder, (".rtf",), rtf_readers)
    print_times("a.rtf", make_large_rtf(), rtf_readers)


if __name__ == "__main__":
    main()
