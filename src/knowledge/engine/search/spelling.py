"""Words of a question that no passage holds: what is one letter away from them is searched for instead, for less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from knowledge.index.api import IndexFilter, IndexSnapshot, QueryTerms
from knowledge.text import analyzer

MAX_CORRECTED_WORDS, MAX_LANGUAGES = 3, 3
MAX_SUGGESTIONS = 3
RARER_FACTOR = 10
"""Of several words nearby, one that is so much rarer than another was hardly meant, and may be misspelt itself."""


@dataclass(frozen=True, slots=True)
class CorrectedQuery:
    words: QueryTerms
    instead: Mapping[str, list[str]] = field(default_factory=dict)
    """What was searched for in place of each word, as it is written."""


def correct_words(
    words: QueryTerms,
    unknown: Mapping[str, tuple[str, ...]],
    languages: tuple[str, ...],
    within: IndexFilter,
    index: IndexSnapshot,
) -> CorrectedQuery:
    """The words with others in place of those that nothing in these collections holds, given with their forms."""
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
    """The terms one letter away that some passage holds, the most frequent first, each with its word."""
    terms = analyzer.find_nearby_terms(word, languages[:MAX_LANGUAGES])
    held = {term: count for term, count in index.count_chunks_by_term(terms, within).items() if count}
    most = max(held.values(), default=0)
    likely = sorted((term for term in held if held[term] * RARER_FACTOR >= most), key=lambda term: -held[term])
    return {term: terms[term] for term in likely[:MAX_SUGGESTIONS]}
