"""Each repair around office-oxide is still needed: the bare library shows the fault, and the extractor does not.

A test that fails with "can go" means that a new office-oxide has fixed the fault: delete the repair and its case here.
"""

from __future__ import annotations

import gzip
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import office_oxide
import pytest

from knowledge.extract.office import repairs
from knowledge.extract.office.repairs import doc, docx, presentations, workbooks
from tests.data.extract import documents
from tests.data.extract.read_sample import join_text, read_pages

SAMPLES = Path(__file__).parents[1] / "data" / "extract"
HEADING_1 = (
    '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/>'
    '<w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>'
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A document that office-oxide misreads, and what its text must and must not contain."""

    repair: Callable[..., object]
    doc_type: str
    content: bytes
    expected: str
    unwanted: str = "\0"
    about: str = ""

    def is_read_correctly(self, text: str) -> bool:
        return self.expected in text and self.unwanted not in text


def paragraph(words: str, style: str = "Text") -> str:
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{words}</w:t></w:r></w:p>'


def table(*rows: tuple[str, ...]) -> str:
    cells = ("".join(f"<w:tc>{cell}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def make_word(body: str, more: str = "") -> bytes:
    return documents.make_docx(body, {"Titel": "Title", "Text": "Normal"}, more)


def make_word_with_box() -> bytes:
    vml = "urn:schemas-microsoft-com:vml"
    inner = f"<w:txbxContent>{paragraph('In a box')}</w:txbxContent>"
    box = f'<w:r><w:pict><v:textbox xmlns:v="{vml}">{inner}</v:textbox></w:pict></w:r>'
    return make_word(f"<w:p><w:r><w:t>Before</w:t></w:r>{box}<w:r><w:t> and after.</w:t></w:r></w:p>")


def make_word_with_ruby() -> bytes:
    sound = "<w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt>"
    base = "<w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase>"
    return make_word(f"<w:p><w:r><w:ruby>{sound}{base}</w:ruby></w:r><w:r><w:t>へ</w:t></w:r></w:p>")


def make_word_with_span() -> bytes:
    wide = f'<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{paragraph("Sum")}'
    head = tuple(paragraph(words) for words in ("Ware", "Year", "Price"))
    return make_word(table(head, (wide, paragraph("25"))))


def make_workbook(cell: str, *formats: str) -> bytes:
    row = f'<row r="1"><c r="A1" t="inlineStr"><is><t>Tea</t></is></c>{cell}</row>'
    return documents.make_xlsx({"One": row}, formats, '<calcPr fullCalcOnLoad="1"/>')


def make_slide() -> bytes:
    title, body = documents.make_shape("Prices", 'type="title"'), documents.make_shape("Tea costs twelve", 'idx="1"')
    return documents.make_pptx(documents.make_shape("Below", "", 5) + title + body)


def read_sample(name: str) -> bytes:
    return gzip.decompress((SAMPLES / f"{name}.gz").read_bytes())


FAULTS = [
    Fault(docx.unwrap_ruby, "docx", make_word_with_ruby(), "東京へ"),
    Fault(docx.move_text_boxes, "docx", make_word_with_box(), "Before and after.\n\nIn a box"),
    Fault(docx.fill_spanned_cells, "docx", make_word_with_span(), "| Sum |  | 25 |"),
    Fault(
        docx.drop_nested_table_rules,
        "docx",
        make_word(table((paragraph("Outer"), table((paragraph("inner"),)) + "<w:p/>"))),
        "| inner |",
        "<br>| --- |",
    ),
    Fault(
        docx.drop_empty_headings,
        "docx",
        make_word(paragraph("One") + paragraph("", "Heading1") + paragraph("Two"), HEADING_1),
        "One\n\nTwo",
    ),
    Fault(docx.mark_headings, "docx", make_word(paragraph("Of ships", "Titel") + paragraph("Words.")), "# Of ships\n"),
    Fault(doc.blank_hidden_text, "doc", read_sample("changed.doc"), "costs twelve crowns", "ninetwelve", "deleted"),
    Fault(doc.blank_hidden_text, "doc", read_sample("changed.doc"), "costs twelve crowns", "unseen", "hidden"),
    Fault(workbooks.drop_empty_values, "xlsx", make_workbook('<c r="B1"><f>SUM(B2:B3)</f><v></v></c>'), "=SUM(B2:B3)"),
    Fault(
        workbooks.format_cells,
        "xlsx",
        make_workbook('<c r="B1" s="1"><v>0.5729166666666666</v></c>', "h:mm"),
        "| Tea | 13:45 |",
        about="time",
    ),
    Fault(
        workbooks.format_cells,
        "xlsx",
        make_workbook('<c r="B1" s="1"><v>1.75</v></c>', "[h]:mm:ss"),
        "| Tea | 42:00:00 |",
        about="duration",
    ),
    Fault(
        workbooks.format_cells,
        "xlsx",
        make_workbook('<c r="B1" s="1"><v>1067</v></c>', "00000"),
        "| Tea | 01067 |",
        about="zero-padded code",
    ),
    Fault(workbooks.round_residues, "xlsx", make_workbook('<c r="B1"><v>1.7000000000000002</v></c>'), "| Tea | 1.7 |"),
    Fault(
        workbooks.read_xls_times, "xls", documents.make_xls(["h:mm"], [[(0, 0.5), (1, 0.5)]]), "| 12:00 |", about="time"
    ),
    Fault(
        workbooks.read_xls_times,
        "xls",
        documents.make_xls(["[h]:mm:ss"], [[(0, 1), (1, 1.25)]]),
        "| 30:00:00 |",
        about="duration",
    ),
    Fault(presentations.order_elements, "pptx", make_slide(), "Prices\n\nTea costs twelve\n\nBelow"),
    Fault(presentations.read_ppt_tables, "ppt", read_sample("prices.ppt"), "| Tea from Assam | 1899 | 12 |"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.repair.__name__} {fault.about}".strip())
def test_a_repair_is_needed_and_works(tmp_path: Path, fault: Fault) -> None:
    with office_oxide.Document.from_bytes(fault.content, fault.doc_type) as document:
        bare = document.to_markdown()
    assert not fault.is_read_correctly(bare), (
        f"office-oxide {version('office-oxide')} reads this correctly: {fault.repair.__name__} can go"
    )
    _, pages = read_pages(tmp_path, f"a.{fault.doc_type}", fault.content)
    assert fault.is_read_correctly(join_text(pages))


def test_every_repair_names_the_fault_of_the_installed_version() -> None:
    modules = [
        importlib.import_module(f"{repairs.__name__}.{one.name}") for one in pkgutil.iter_modules(repairs.__path__)
    ]
    described = {
        function
        for module in modules
        for _, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and "office-oxide 0." in (function.__doc__ or "")
    }
    assert described == {fault.repair for fault in FAULTS}
    outdated = [
        one.__name__ for one in described if f"office-oxide {version('office-oxide')} " not in (one.__doc__ or "")
    ]
    assert outdated == [], "Check these against the new version and update their docstrings"
