"""Questions whose answers are known: where the expected document or passage came, and what stood on top instead."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.engine.evaluate.metrics import Measures, first_place, measure
from knowledge.model import Document, Hit

RUN = 5
"""Passages are compared by runs of this many words: who copied a passage need not know where it is cut."""
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A document by its title, path, address or id; a passage by its text; or this passage of that document."""

    document: str | None = None
    passage: str | None = None

    def met_by(self, hit: Hit) -> bool:
        in_document = self.document is None or is_called(hit.document, self.document)
        return in_document and (self.passage is None or overlaps(hit.text, self.passage))


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    expected: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one question."""

    question: Question
    rank: int | None
    """The place of the first thing expected, among documents or, where a passage is expected, among passages."""
    measures: Measures
    unmet: tuple[Expectation, ...]
    top: Hit | None


def judge(question: Question, hits: Sequence[Hit]) -> Outcome:
    names, unmet = _named(question, _units(question, hits))
    grades = {_wanted(number): 1 for number in range(len(question.expected))}
    rank, measures = first_place(names, grades), measure(names, grades)
    return Outcome(question, rank, measures, unmet, hits[0] if hits else None)


def _units(question: Question, hits: Sequence[Hit]) -> list[list[Hit]]:
    """What is ranked: passages one by one, or documents with all their passages."""
    if any(expectation.passage is not None for expectation in question.expected):
        return [[hit] for hit in hits]
    documents: dict[int, list[Hit]] = {}
    for hit in hits:
        documents.setdefault(hit.document.id, []).append(hit)
    return list(documents.values())


def _named(question: Question, units: Sequence[list[Hit]]) -> tuple[list[str], tuple[Expectation, ...]]:
    """The ranking by names, in which each expectation is met once, and those that were not met."""
    waiting = dict(enumerate(question.expected))
    names: list[str] = []
    for place, unit in enumerate(units):
        met = next((number for number, one in waiting.items() if any(one.met_by(hit) for hit in unit)), None)
        names.append(f"other {place}" if met is None else _wanted(met))
        if met is not None:
            del waiting[met]
    return names, tuple(waiting.values())


def _wanted(number: int) -> str:
    return f"wanted {number}"


def is_called(document: Document, name: str) -> bool:
    """By number, UUID, title, file name, address, or path, of which the end is enough."""
    if name in (document.title, document.filename, document.url, str(document.uid)):
        return True
    if name.removeprefix("#") == str(document.id):
        return True
    wanted, path = _slashes(os.path.normpath(name)), _slashes(document.source_path or "")
    return bool(path) and (path == wanted or path.endswith("/" + wanted))


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def overlaps(text: str, passage: str) -> bool:
    """Whether half of the shorter one's runs of words stand in the other, however they are spaced and written."""
    length = min(RUN, len(WORD.findall(passage)))
    ours, theirs = _runs(text, length), _runs(passage, length)
    shorter = min(len(ours), len(theirs))
    return shorter > 0 and 2 * len(ours & theirs) >= shorter


def _runs(text: str, length: int) -> set[tuple[str, ...]]:
    words = WORD.findall(text.casefold())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}
