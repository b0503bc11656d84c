"""Words of a question that no passage holds: what is one letter away from them is searched for instead, for less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from knowledge.index.api import Index, Within, Words
from knowledge.text import analyzer

MOST_WORDS, MOST_LANGUAGES = 3, 3
MOST_NEARBY = 3
FAR_RARER = 10
"""Of several words nearby, one that is so much rarer than another was hardly meant, and may be misspelt itself."""


@dataclass(frozen=True, slots=True)
class Spelling:
    words: Words
    instead: Mapping[str, list[str]] = field(default_factory=dict)
    """What was searched for in place of each word, as it is written."""


def mended(text: str, words: Words, within: Within, index: Index) -> Spelling:
    """The words with others in place of those that nothing in these collections holds."""
    languages = index.languages()
    unsure = analyzer.unsure(text, languages)
    unknown = [word for word, forms in unsure.items() if not any(index.holding(form, within) for form in forms)]
    found = {word: near for word in unknown[:MOST_WORDS] if (near := nearby(word, languages, within, index))}
    if not found:
        return Spelling(words)
    instead = tuple((unsure[word], tuple(near)) for word, near in found.items())
    return Spelling(replace(words, instead=instead), {word: [*near.values()] for word, near in found.items()})


def nearby(word: str, languages: tuple[str, ...], within: Within, index: Index) -> dict[str, str]:
    """The terms one letter away that some passage holds, the most frequent first, each with its word."""
    terms = analyzer.nearby(word, languages[:MOST_LANGUAGES])
    held = {term: holding for term in terms if (holding := index.holding(term, within))}
    most = max(held.values(), default=0)
    likely = sorted((term for term in held if held[term] * FAR_RARER >= most), key=lambda term: -held[term])
    return {term: terms[term] for term in likely[:MOST_NEARBY]}
