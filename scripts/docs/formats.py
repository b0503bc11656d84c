"""The page of docs/reference that lists every format."""

from __future__ import annotations

from knowledge.extract.formats import FORMATS

PAGES = {
    "pdf": "pages", "docx": "–", "pptx": "slides", "ppt": "slides", "xlsx": "sheets", "xls": "sheets", "ods": "sheets",
    "odp": "slides", "epub": "chapters", "tiff": "pictures", "zip": "documents",
}  # fmt: skip
"""What counts as a page, where there is such a thing."""


def formats_page(made: str) -> str:
    head = [
        "# Formats",
        "",
        made,
        "",
        "Among these suffixes the content decides before the name does: a wrong one is no obstacle, a lie is refused.",
        "How each is read, and under which limits, is told in [how documents are read](../explanation/extraction.md).",
        "",
        "| type | suffixes | what it is | pages are |",
        "|---|---|---|---|",
    ]
    rows = [
        f"| `{one.doc_type}` | {' '.join(f'`{suffix}`' for suffix in one.suffixes)} | {one.name} "
        f"| {PAGES.get(one.doc_type, '–')} |"
        for one in FORMATS
    ]
    return "\n".join([*head, *rows, ""])
