"""Generates the page of docs/reference that lists every format."""

from __future__ import annotations

from knowledge.extract.formats import FORMATS

PAGE_MEANINGS = {
    "pdf": "pages", "docx": "–", "pptx": "slides", "ppt": "slides", "xlsx": "sheets", "xls": "sheets", "ods": "sheets",
    "odp": "slides", "epub": "chapters", "tiff": "pictures", "zip": "documents",
}  # fmt: skip
"""The unit that counts as a page, by type."""


def render_formats_page(generated_note: str) -> str:
    head = [
        "# Formats",
        "",
        generated_note,
        "",
        "The suffix must be one of these. If the content has the signature of another format, the content decides.",
        "[How documents are parsed](../explanation/extraction.md) describes each format and the limits.",
        "",
        "| type | suffixes | format | unit counted as a page |",
        "|---|---|---|---|",
    ]
    rows = [
        f"| `{one.doc_type}` | {' '.join(f'`{suffix}`' for suffix in one.suffixes)} | {one.name} "
        f"| {PAGE_MEANINGS.get(one.doc_type, '–')} |"
        for one in FORMATS
    ]
    return "\n".join([*head, *rows, ""])
