"""Word documents (DOCX, DOC) as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

from knowledge.extract.base import Extraction, Source
from knowledge.extract.office.document import open_office_document, read_office_facts
from knowledge.extract.office.repairs import docx
from knowledge.extract.office.repairs.doc import blank_hidden_text
from knowledge.extract.text.markdown import find_first_heading, replace_images
from knowledge.extract.text.plain import to_pages

INLINE_TAG = re.compile(r"</?(?:sup|sub|u)>")
INLINE_END_TAGS = ("</sup>", "</sub>", "</u>")
LINK = re.compile(r"\[([^\]\[]+)\]\([^()\s]*\)")


def extract(source: Source, doc_type: str) -> Extraction:
    modern = doc_type == "docx"
    with open_office_document(docx.repair_docx(source) if modern else blank_hidden_text(source), doc_type) as document:
        text = _tidy_markdown(document.to_markdown())
    if modern:
        text = docx.mark_headings(source, text)
    facts = read_office_facts(source, doc_type)
    return Extraction(replace(facts, title=facts.title or find_first_heading(text)), to_pages([text]))


def _tidy_markdown(text: str) -> str:
    """Replace links by their text and images by their description, and drop inline HTML and empty headings."""
    # Each step is guarded by a substring search, because most long texts contain none of these.
    if "<br>" in text:
        text = docx.drop_nested_table_rules(text).replace("<br>", " ")
    if any(tag in text for tag in INLINE_END_TAGS):
        text = INLINE_TAG.sub("", text)
    if "](" in text:
        text = LINK.sub(_unwrap_link, replace_images(text))
    text = docx.drop_empty_headings(text)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def _unwrap_link(link: re.Match[str]) -> str:
    """Return the link text, or the match unchanged if the brackets are escaped and thus not a link."""
    return link[0] if link[1].endswith("\\") else link[1]
