"""Spelling correction: query words that no passage contains are replaced by terms within edit distance one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from knowledge.index.api import IndexFilter, IndexSnapshot, QueryTerms
from knowledge.text import analyzer

MAX_CORRECTED_WORDS, MAX_LANGUAGES = 3, 3
MAX_SUGGESTIONS = 3
RARER_FACTOR = 10
"""A suggestion that is this many times rarer than another is dropped, because it may be a misspelling itself."""


@dataclass(frozen=True, slots=True)
class CorrectedQuery:
    words: QueryTerms
    instead: Mapping[str, list[str]] = field(default_factory=dict)
    """The replacements of each word, as written in the passages."""


def correct_words(
    words: QueryTerms,
    unknown: Mapping[str, tuple[str, ...]],
    languages: tuple[str, ...],
    within: IndexFilter,
    index: IndexSnapshot,
) -> CorrectedQuery:
    """Add replacements for `unknown`, the words without a match and their forms, to the query terms."""
    found = {
        word: near
        for word in [*unknown][:MAX_CORRECTED_WORDS]
        if (near := find_similar_terms(word, languages, within, index))
    }
    instead = tuple((unknown[word], tuple(near)) for word, near in found.items())
    return CorrectedQuery(replace(words, instead=instead), {word: [*near.values()] for word, near in found.items()})


def find_similar_terms(
    word: str, languages: tuple[str, ...], within: IndexFilter, index: IndexSnapshot
) -> dict[str, str]:
    """Return indexed terms within edit distance one, most frequent first, each with its word."""
    terms = analyzer.find_nearby_terms(word, languages[:MAX_LANGUAGES])
    counts = {term: count for term, count in index.count_chunks_by_term(terms, within).items() if count}
    highest = max(counts.values(), default=0)
    likely = sorted((term for term in counts if counts[term] * RARER_FACTOR >= highest), key=lambda term: -counts[term])
    return {term: terms[term] for term in likely[:MAX_SUGGESTIONS]}
