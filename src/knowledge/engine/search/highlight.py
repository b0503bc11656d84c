"""Highlights: which words of a passage matched the question, as offsets that JavaScript can use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from knowledge.index.api import QueryTerms
from knowledge.text.locations import LocatedToken, Span, locate_tokens

MAX_PHRASES = 16
"""Limit of quoted phrases that are looked for, since each reads the passage once."""


def find_highlights(text: str, language: str | None, words: QueryTerms) -> tuple[Span, ...]:
    """Return the spans of a passage that match the question, as UTF-16 offsets, sorted and not overlapping.

    A quoted phrase is one span where it stands; its words alone are marked only if the passage has no such place.
    """
    if not words.terms:
        return ()
    tokens = list(locate_tokens(text, language))
    wanted = {form for forms in words.terms for form in forms} | {near for _, found in words.instead for near in found}
    spans: list[Span] = []
    for phrase in words.phrases[:MAX_PHRASES]:
        places = [span for terms in phrase for span in find_phrase(tokens, terms)]
        if places:
            wanted -= {term for terms in phrase for term in terms}
            spans += places
    spans += (span for token in tokens for span in token.find_spans(wanted))
    return tuple(convert_to_utf16(text, merge_spans(spans)))


def find_phrase(tokens: Sequence[LocatedToken], phrase: Sequence[str]) -> Iterator[Span]:
    """Yield the places where the terms of a phrase follow each other, in linear time (Knuth-Morris-Pratt)."""
    fallback = _build_failure_table(phrase)
    matched = 0
    sequence = [(term, at) for at, token in enumerate(tokens) for term in token.terms]
    for place, (term, at) in enumerate(sequence):
        while matched and term != phrase[matched]:
            matched = fallback[matched - 1]
        matched += term == phrase[matched]
        if matched == len(phrase):
            yield tokens[sequence[place - matched + 1][1]].start, tokens[at].end
            matched = 0


def _build_failure_table(phrase: Sequence[str]) -> list[int]:
    table, length = [0], 0
    for term in phrase[1:]:
        while length and term != phrase[length]:
            length = table[length - 1]
        length += term == phrase[length]
        table.append(length)
    return table


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and merge those that overlap."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def convert_to_utf16(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Convert sorted offsets in characters to offsets in UTF-16 code units, as JavaScript counts them."""
    done = extra = 0
    wide = not text.isascii() and max(text) > "\uffff"
    for span in spans:
        places = []
        for place in span:
            extra += sum(character > "\uffff" for character in text[done:place]) if wide else 0
            done = place
            places.append(place + extra)
        yield places[0], places[1]
