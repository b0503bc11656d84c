"""Compares extracted documents with their expected content."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from typing import TypedDict

QUOTES = str.maketrans(dict.fromkeys("‘’ʼ′`´", "'") | dict.fromkeys("“”", '"'))
DASHES = str.maketrans(dict.fromkeys("‐‑‒–—−", "-") | dict.fromkeys("\u00ad\u200b\ufeff\u2060"))
MARKUP = re.compile(r"[*~]|(?<![\w])_|_(?![\w])|\\(?=[^\w\s])|</?(?:b|i|em|strong|u|sup|sub|span|code)\b[^>]*>")
LINK = re.compile(r"!?\[([^\]\[]*)\]\([^)\s]*\)")
Alternatives = str | list[str]


class Expectation(TypedDict, total=False):
    """One entry of a folder's `expect.json`."""

    file: str
    kind: str
    must_contain: list[Alternatives]
    must_contain_in_order: bool
    must_contain_dehyphenated: list[str]
    must_not_contain: list[str]
    must_once: list[str]
    headings: list[str]
    table_cells_same_row: list[list[Alternatives]]
    pages: int | None
    phrase_pages: dict[str, int]
    outcome: list[str]
    ignore_space: bool


@dataclass
class ExtractedDocument:
    """The result of a job for one document."""

    status: str
    text: str = ""
    page_count: int | None = None
    pages: dict[int, str] = field(default_factory=dict)
    headings: set[str] = field(default_factory=set)


@dataclass
class Score:
    passed: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)

    def record(self, kind: str, what: object, held: bool) -> None:
        self.checked[kind] += 1
        self.passed[kind] += held
        if not held:
            self.missed.append(f"{kind}: {what}")


def normalize_text(text: str, squeeze: bool = False, fold: bool = False) -> str:
    """Remove markup and unify quotes, dashes and white space."""
    text = unicodedata.normalize("NFKC", html.unescape(text)).translate(DASHES).translate(QUOTES)
    text = MARKUP.sub("", LINK.sub(r"\1", text)).replace("'", "")
    text = text.casefold() if fold else text
    return re.sub(r"\s+", "" if squeeze else " ", text).strip()


def score_document(wanted: Expectation, found: ExtractedDocument) -> Score:
    squeeze, fold = bool(wanted.get("ignore_space")), wanted["kind"].endswith("_ocr")

    def bare(text: str) -> str:
        return normalize_text(text, squeeze, fold)

    result, text = Score(), bare(found.text)
    places = []
    for phrase in wanted.get("must_contain", []):
        place = max(text.find(bare(one)) for one in ([phrase] if isinstance(phrase, str) else phrase))
        result.record("phrases", phrase, place >= 0)
        places.append(place)
    if wanted.get("must_contain_in_order"):
        _score_order(wanted, text, bare, result)
    for phrase in wanted.get("must_not_contain", []):
        result.record("absent", phrase, bare(phrase) not in text)
    for phrase in wanted.get("must_contain_dehyphenated", []):
        result.record("dehyphenated", phrase, bare(phrase) in text)
    for phrase in wanted.get("must_once", []):
        result.record("once", phrase, text.count(bare(phrase)) == 1)
    for heading in wanted.get("headings", []):
        result.record("headings", heading, any(bare(heading) in bare(one) for one in found.headings))
    rows = [bare(line) for line in found.text.split("\n")]
    for cells in wanted.get("table_cells_same_row", []):
        result.record("rows", cells, any(_has_all_cells(row, cells, bare) for row in rows))
    if wanted.get("pages"):
        result.record("page count", wanted["pages"], found.page_count == wanted["pages"])
    for phrase, number in wanted.get("phrase_pages", {}).items():
        result.record("page of a phrase", phrase, bare(phrase) in bare(found.pages.get(number, "")))
    result.record("outcome", f"{found.status}, not {wanted['outcome']}", found.status in wanted["outcome"])
    return result


def _score_order(wanted: Expectation, text: str, bare: object, result: Score) -> None:
    position = 0
    call = bare if callable(bare) else str
    for phrase in wanted.get("must_contain", []):
        places = [text.find(call(one), position) for one in ([phrase] if isinstance(phrase, str) else phrase)]
        place = min((one for one in places if one >= 0), default=-1)
        result.record("order", phrase, place >= 0)
        position = max(position, place)


def _has_all_cells(row: str, cells: list[Alternatives], bare: object) -> bool:
    call = bare if callable(bare) else str
    return all(any(call(one) in row for one in ([cell] if isinstance(cell, str) else cell)) for cell in cells)
