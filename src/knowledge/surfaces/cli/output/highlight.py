"""Which words of a passage answer the question's words, by the same rules that found it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]

_TOKEN = re.compile(r"\w[\w\u0300-\u036f]*(?:[.\-'’]\w+)*[+#]*")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

EXCERPT = 320
"""How many letters of a passage are shown unless all of it is wanted."""


def asked_terms(question: str, language: str | None) -> frozenset[str]:
    """The question's terms, without its small words."""
    from knowledge.text import analyzer

    asked = analyzer.question(question, [language] if language else [])
    return frozenset(form for forms in asked.terms for form in forms)


def marks(text: str, wanted: frozenset[str], language: str | None) -> list[Span]:
    """Where the wanted terms stand, in order and without overlap."""
    from knowledge.text import analyzer

    found: list[Span] = []
    for token in _TOKEN.finditer(text):
        if _UNSPACED.search(token.group()):
            found += _inside(token.group(), token.start(), wanted)
        elif wanted.intersection(analyzer.terms(token.group(), language)):
            found.append(token.span())
    return _joined(sorted(found))


def _inside(run: str, start: int, wanted: frozenset[str]) -> Iterator[Span]:
    """In scripts without spaces the terms are pieces of a run."""
    for term in wanted:
        at = run.find(term)
        while at >= 0:
            yield start + at, start + at + len(term)
            at = run.find(term, at + 1)


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


@dataclass(frozen=True, slots=True)
class Excerpt:
    text: str
    marks: tuple[Span, ...]


def excerpt(text: str, spans: Sequence[Span], longest: int = EXCERPT) -> Excerpt:
    """The part of a passage that holds most of the marks, cut between words."""
    if len(text) <= longest:
        return Excerpt(text, tuple(spans))
    start = _best_start(text, spans, longest)
    end = min(start + longest, len(text))
    if end < len(text):
        end = max(text.rfind(" ", start, end), start + longest // 2)
    before, after = "… " if start else "", " …" if end < len(text) else ""
    shift = len(before) - start
    kept = tuple((left + shift, right + shift) for left, right in spans if start <= left and right <= end)
    return Excerpt(f"{before}{text[start:end]}{after}", kept)


def _best_start(text: str, spans: Sequence[Span], longest: int) -> int:
    """A little before the mark from which a window holds the most marks; the first of equals."""
    if not spans:
        return 0
    counts = [sum(start <= left and right <= start + longest for left, right in spans) for start, _ in spans]
    lead = longest // 5
    start = spans[counts.index(max(counts))][0] - lead
    if start <= lead:
        return 0
    return text.rfind(" ", 0, min(start, len(text) - longest) + 1) + 1


def on_one_line(text: str) -> str:
    return " ".join(text.split())
