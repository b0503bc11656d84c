"""Word documents: headings, lists, tables, footnotes and comments as Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

from knowledge.extract.base import Extracted, Source
from knowledge.extract.links import replace_images
from knowledge.extract.office import doc_hidden_text, docx_headings, docx_repairs
from knowledge.extract.office.docx_repairs import edges_once
from knowledge.extract.office.facts import office_facts
from knowledge.extract.office.open import open_office
from knowledge.extract.text.markdown import first_heading
from knowledge.extract.text.plain import pages

EMPTY_HEADING = re.compile(r"\n#{1,6}[ \t*_]*(?=\n)")
RAISED = re.compile(r"</?(?:sup|sub|u)>")
RAISED_ENDS = ("</sup>", "</sub>", "</u>")
INNER_RULE = re.compile(r"<br>\|(?: --- \|)+")
"""Below the header of a table that stands in a cell of another."""
LINK = re.compile(r"\[([^\]\[]+)\]\([^()\s]*\)")


def extract(source: Source, doc_type: str) -> Extracted:
    modern = doc_type == "docx"
    with open_office(docx_repairs.mended(source) if modern else doc_hidden_text.seen(source), doc_type) as document:
        text = edges_once(_tidy(document.to_markdown()))
    if modern:
        text = docx_headings.mark(source, text)
    facts = office_facts(source, doc_type)
    return Extracted(replace(facts, title=facts.title or first_heading(text)), pages([text]))


def _tidy(text: str) -> str:
    """Links keep their words only, pictures their description, and headings without words go."""
    if "<br>" in text:  # each is looked for first, because a long text without any is the rule
        text = INNER_RULE.sub("", text).replace("<br>", " ")
    if any(mark in text for mark in RAISED_ENDS):
        text = RAISED.sub("", text)
    if "](" in text:
        text = LINK.sub(_linked, replace_images(text))
    text = EMPTY_HEADING.sub("", text)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def _linked(link: re.Match[str]) -> str:
    """Its words; brackets that the author wrote have a backslash before them and stay."""
    return link[0] if link[1].endswith("\\") else link[1]
