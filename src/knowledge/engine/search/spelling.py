"""Spelling correction and completion: words that no passage contains are replaced by terms within edit distance one,
and the last word of a question that is being typed is completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from knowledge.index.api import IndexFilter, IndexSnapshot, QueryTerms
from knowledge.text import analyzer

MAX_CORRECTED_WORDS, MAX_LANGUAGES = 3, 3
MAX_SUGGESTIONS = 3
RARER_FACTOR = 10
"""A suggestion that is this many times rarer than another is dropped, because it may be a misspelling itself."""


MIN_PREFIX_CHARS, MAX_COMPLETIONS = 2, 8
"""A single letter begins too many words to say anything."""
MAX_SUFFIX_CHARS, MIN_STEM_CHARS = 4, 4
"""A word that is longer than its stem, such as `retrieva`, is cut by up to this many letters."""


def complete_last_word(
    words: QueryTerms, last: analyzer.LastWord, within: IndexFilter, index: IndexSnapshot
) -> QueryTerms | None:
    """Add the completions of the last word to its forms; None if no term begins with it."""
    if len(last.prefix) < MIN_PREFIX_CHARS or not words.terms or words.terms[-1] != last.forms:
        return None
    found = index.find_completions(last.prefix, within, MAX_COMPLETIONS)
    if not found:
        shorter = [last.prefix[:-cut] for cut in range(1, MAX_SUFFIX_CHARS + 1)]
        counts = index.count_chunks_by_term([stem for stem in shorter if len(stem) >= MIN_STEM_CHARS], within)
        found = [stem for stem, count in counts.items() if count][:1]
    if not found:
        return None
    return replace(words, terms=(*words.terms[:-1], tuple(dict.fromkeys((*last.forms, *found)))))


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
