"""One small document of every format, with the same text."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import office_oxide

from tests.data.extract import documents

FOLDER = Path(__file__).parent
SENTENCES = ("Tea costs twelve in the harbour", "and coffee only eight in the winter")
MARKDOWN = "---\ntitle: Harbour handbook\nauthor: Ada\ndate: 2024-03-01\n---\n\n# Prices\n\nTea costs twelve.\n"
HTML = (
    '<html lang="en"><head><title>Harbour handbook</title><meta name="author" content="Ada">'
    '<meta name="date" content="2024-03-01"></head><body><h1>Prices</h1><p>Tea costs twelve.</p></body></html>'
)
RTF = (
    r"{\rtf1{\stylesheet{\s1 heading 1;}}{\info{\title Harbour handbook}{\author Ada}"
    r"{\creatim\yr2024\mo3\dy1\hr10\min0}}\pard\s1 Prices\par\pard Tea costs twelve.\par}"
)
MAIL = "From: Ada\nSubject: Harbour handbook\nDate: Fri, 01 Mar 2024 12:00:00 +0000\n\nTea costs twelve.\n"
NOTEBOOK = {"cells": [{"cell_type": "markdown", "source": ["# Prices\n", "Tea costs twelve."]}], "nbformat": 4}
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><title>Prices</title><text>Tea costs twelve</text></svg>'


def pdf() -> bytes:
    made = documents.Pdf()
    made.info = b"/Title (Harbour handbook) /Author (Ada) /CreationDate (D:20240301120000Z)"
    made.text((72, 760, 11, "Annual Results"), (72, 720, 11, "Income rose in the third quarter."))
    made.text((72, 760, 11, "Prices"), (72, 700, 11, "Tea costs twelve in the harbour."))
    made.outline(("Annual Results", 1), ("Prices", 2))
    return made.to_bytes()


def docx() -> bytes:
    def styled(style: str, words: str) -> str:
        return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{words}</w:t></w:r></w:p>'

    body = styled("H1", "Prices") + styled("Text", "Tea costs twelve.")
    return documents.describe_package(documents.make_docx(body, {"H1": "heading 1", "Text": "Normal"}))


def pptx() -> bytes:
    writer = office_oxide.PptxWriter()
    for title, words in (("Start", "Ships moor here"), ("Prices", "Tea costs twelve")):
        slide = writer.add_slide()
        writer.set_slide_title(slide, title)
        writer.add_slide_text(slide, words)
    return documents.describe_package(writer.to_bytes())


def xlsx() -> bytes:
    def row(*words: str) -> str:
        cells = "".join(f'<c t="inlineStr"><is><t>{word}</t></is></c>' for word in words)
        return f"<row>{cells}</row>"

    sheets = {"Start": row("Harbour", "Ships"), "Prices": row("Ware", "Price") + row("Tea costs", "twelve")}
    return documents.describe_package(documents.make_xlsx(sheets, []))


def odt() -> bytes:
    body = '<text:h text:outline-level="1">Prices</text:h><text:p>Tea costs twelve.</text:p>'
    return documents.make_opendocument("text", f"<office:text>{body}</office:text>")


def odp() -> bytes:
    slides = "".join(
        f'<draw:page><draw:frame presentation:class="title"><text:p>{title}</text:p></draw:frame>'
        f"<text:p>{words}</text:p></draw:page>"
        for title, words in (("Start", "Ships moor here"), ("Prices", "Tea costs twelve"))
    )
    return documents.make_opendocument("presentation", f"<office:presentation>{slides}</office:presentation>")


def ods() -> bytes:
    sheets = "".join(
        f'<table:table table:name="{name}"><table:table-row><table:table-cell><text:p>{words}</text:p>'
        "</table:table-cell></table:table-row></table:table>"
        for name, words in (("Start", "Ships moor here"), ("Prices", "Tea costs twelve"))
    )
    return documents.make_opendocument("spreadsheet", f"<office:spreadsheet>{sheets}</office:spreadsheet>")


def epub() -> bytes:
    return documents.make_epub(
        {"a.xhtml": "<h1>One</h1><p>It began.</p>", "b.xhtml": "<h1>Prices</h1><p>Tea costs twelve.</p>"}
    )


def msg() -> bytes:
    return documents.make_msg("Harbour handbook", "Tea costs twelve.", ("note.txt", b"See you there."))


def read_old_sample(kind: str) -> bytes:
    return gzip.decompress((FOLDER / f"harbour.{kind}.gz").read_bytes())


def make_picture(kind: str) -> bytes:
    return documents.encode_image(documents.draw_picture(*SENTENCES), kind)


TEXTS = {
    "md": MARKDOWN, "txt": "Tea costs twelve.", "log": "12:00 Tea costs twelve.", "html": HTML, "rtf": RTF, "eml": MAIL,
    "srt": "1\n00:00:01,000 --> 00:00:02,000\nTea costs twelve.\n", "csv": "Ware,Price\nTea costs,twelve\n",
    "tsv": "Ware\tPrice\nTea costs\ttwelve\n", "json": '{"tea": "costs twelve"}', "jsonl": '{"tea": "costs twelve"}\n',
    "ipynb": json.dumps(NOTEBOOK), "rst": "Prices\n======\n\nTea costs twelve.\n",
    "adoc": "== Prices\n\nTea costs twelve.\n", "org": "* Prices\nTea costs twelve.\n",
    "tex": "\\section{Prices}\nTea costs twelve.\n", "svg": SVG,
}  # fmt: skip
SAMPLES: Mapping[str, Callable[[], bytes]] = {
    **{kind: text.encode for kind, text in TEXTS.items()},
    **{kind: partial(read_old_sample, kind) for kind in ("doc", "xls", "ppt")},
    **{
        kind: partial(make_picture, "JPEG" if kind == "jpg" else kind.upper())
        for kind in ("png", "jpg", "tiff", "webp")
    },
    **{kind: partial(make_picture, kind.upper()) for kind in ("gif", "bmp")},
    "pdf": pdf,
    "docx": docx,
    "pptx": pptx,
    "xlsx": xlsx,
    "odt": odt,
    "odp": odp,
    "ods": ods,
    "epub": epub,
    "msg": msg,
    "zip": lambda: documents.make_zip({"prices.txt": "Tea costs twelve."}),
}
