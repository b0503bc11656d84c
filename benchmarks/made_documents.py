"""Generated texts and documents, for benchmarks that get no folder; the same ones in every run."""

from __future__ import annotations

import random
import textwrap
import zipfile
from html import escape
from pathlib import Path

WORDS = """
the a of and to in tea kettle water leaf cup garden rain window harvest mountain village river market trade route
steam copper porcelain morning evening season monsoon valley slope picker basket drying rolling oxidation aroma
colour taste bitter sweet strong light export ship harbour customs paper record century method system analysis
"""
LINES_PER_PAGE, LINE_CHARS = 44, 90
DOCX_TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>'
    '<Override PartName="/word/styles.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/></Types>'
)
DOCX_RELATIONSHIPS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Target="{target}" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}"/></Relationships>'
)
DOCX_NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DOCX_STYLES = (
    f'<?xml version="1.0"?><w:styles xmlns:w="{DOCX_NAMESPACE}"><w:style w:type="paragraph" w:styleId="Heading1">'
    '<w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style></w:styles>'
)


class TextMaker:
    """Generates English-like prose from a seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)

    def make_sentence(self) -> str:
        words = self._random.choices(WORDS.split(), k=self._random.randint(8, 18))
        return " ".join(words).capitalize() + "."

    def make_paragraph(self) -> str:
        return " ".join(self.make_sentence() for _ in range(self._random.randint(4, 8)))

    def make_markdown(self, sections: int) -> str:
        """Return sections of one heading and two paragraphs, about 200 tokens each."""
        parts = (f"{self.make_paragraph()}\n\n{self.make_paragraph()}" for _ in range(sections))
        return "\n\n".join(f"## Section {number}\n\n{part}" for number, part in enumerate(parts))


def write_pdf(path: Path, pages: int, seed: int = 7) -> None:
    """Write a PDF with one text column in Helvetica; page N begins with the line `Page N of the ledger`."""
    maker = TextMaker(seed)
    kids = " ".join(f"{4 + 2 * page} 0 R" for page in range(pages))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for page in range(pages):
        lines = [f"Page {page + 1} of the ledger"]
        while len(lines) < LINES_PER_PAGE:
            lines += textwrap.wrap(maker.make_paragraph(), LINE_CHARS)
        shown = "".join(f"({line}) Tj T*\n" for line in lines[:LINES_PER_PAGE])
        content = f"BT /F1 10 Tf 15 TL 50 780 Td\n{shown}ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * page} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    path.write_bytes(_assemble_pdf(objects))


def _assemble_pdf(objects: list[str]) -> bytes:
    data, offsets = b"%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode("ascii")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("ascii")


def write_docx(path: Path, sections: int, seed: int = 7) -> None:
    """Write a Word document in which section N has the heading `Section N` and one paragraph."""
    maker = TextMaker(seed)
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Section {number}</w:t></w:r></w:p>'
        f"<w:p><w:r><w:t>{escape(maker.make_paragraph())}</w:t></w:r></w:p>"
        for number in range(sections)
    )
    document = f'<?xml version="1.0"?><w:document xmlns:w="{DOCX_NAMESPACE}"><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", DOCX_TYPES)
        archive.writestr("_rels/.rels", DOCX_RELATIONSHIPS.format(target="word/document.xml", kind="officeDocument"))
        archive.writestr("word/_rels/document.xml.rels", DOCX_RELATIONSHIPS.format(target="styles.xml", kind="styles"))
        archive.writestr("word/styles.xml", DOCX_STYLES)
        archive.writestr("word/document.xml", document)
