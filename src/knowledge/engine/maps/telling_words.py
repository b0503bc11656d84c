"""Finds the words that tell a cluster of passages from the others, as places in the passages.

A place and not the word itself is stored, so that the name of a cluster is read from passages that the caller may read
now, and a removed document leaves none of its words behind.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from knowledge.text.analyzer import (
    DEFAULT_LANGUAGE,
    STOP_WORDS,
    extract_token_terms,
    find_tokens,
    list_token_parts,
    normalise_nfkc,
)

WORDS_PER_CLUSTER = 3
MIN_LETTERS = 3
MIN_PASSAGES = 2
"""A word in a single passage does not tell anything about a cluster."""
MIN_LIFT = 1.5
"""How many times more frequent a word is inside a cluster than outside it."""
MAX_SAMPLES = 40
"""Passages with a word of which the commonest spelling is chosen."""
PLACES_PER_WORD = 3
"""Places of a word that are stored, in different documents if possible."""


@dataclass(frozen=True, slots=True)
class MappedPassage:
    document: int
    text: str
    language: str | None


@dataclass(frozen=True, slots=True)
class WordPlace:
    """Where a word is: the number of the passage, and start and end in its text in NFKC."""

    passage: int
    start: int
    end: int


def find_telling_words(
    passages: Sequence[MappedPassage], clusters: Sequence[int], count: int
) -> list[list[tuple[WordPlace, ...]]]:
    """Return the words of each cluster, most telling first, each with a few places where it is spelled alike."""
    totals: Counter[str] = Counter()
    inside = [Counter[str]() for _ in range(count)]
    sizes = Counter(clusters)
    for passage, cluster in zip(passages, clusters, strict=True):
        terms = {term for term, _, _ in list_words(passage)}
        totals.update(terms)
        inside[cluster].update(terms)
    chosen = [
        choose_terms(inside[cluster], totals, sizes[cluster], len(passages) - sizes[cluster])
        for cluster in range(count)
    ]
    members: list[list[int]] = [[] for _ in range(count)]
    for number, cluster in enumerate(clusters):
        members[cluster].append(number)
    return [_find_places(passages, members[cluster], chosen[cluster]) for cluster in range(count)]


def choose_terms(inside: Counter[str], totals: Counter[str], size: int, others: int) -> list[str]:
    """Return the terms that are frequent in a cluster and rare outside it."""

    def rate(term: str) -> float:
        share = inside[term] / size
        outside = (totals[term] - inside[term] + 0.5) / (others + 1)
        return share * math.log(share / outside) if share > MIN_LIFT * outside else 0.0

    rated = ((rate(term), term) for term, times in inside.items() if times >= min(MIN_PASSAGES, size))
    best = sorted((each for each in rated if each[0] > 0 or not others), key=lambda each: (-each[0], each[1]))
    return [term for _, term in best[:WORDS_PER_CLUSTER]]


def list_words(passage: MappedPassage) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a passage that may name a cluster: term, start and end."""
    language = passage.language or DEFAULT_LANGUAGE
    stop_words = STOP_WORDS[DEFAULT_LANGUAGE] | STOP_WORDS.get(language, frozenset())
    for token in find_tokens(normalise_nfkc(passage.text)):
        for start, end in _split_token(token[0]):
            word = token[0][start:end]
            folded = word.casefold()
            if not word.isalpha() or folded in stop_words:
                continue
            terms, _ = extract_token_terms(word if word.islower() else folded, language)
            if terms:
                yield terms[0], token.start() + start, token.start() + end


def _split_token(token: str) -> Iterator[tuple[int, int]]:
    """Yield a word, or the pairs of characters of a script without spaces."""
    if len(token) >= MIN_LETTERS and extract_token_terms(token, DEFAULT_LANGUAGE)[1] == ():
        yield 0, len(token)
    elif not token.isascii():
        yield from ((start, end) for level, start, end in list_token_parts(token) if level == 1 and end - start == 2)


def _find_places(
    passages: Sequence[MappedPassage], members: Sequence[int], terms: Sequence[str]
) -> list[tuple[WordPlace, ...]]:
    """Return places of each term in its commonest spelling, in different documents where there are any."""
    found: dict[str, list[tuple[str, WordPlace]]] = {term: [] for term in terms}
    for number in members:
        if all(len(places) >= MAX_SAMPLES for places in found.values()):
            break
        text = normalise_nfkc(passages[number].text)
        for term, start, end in list_words(passages[number]):
            if term in found and len(found[term]) < MAX_SAMPLES:
                found[term].append((text[start:end], WordPlace(number, start, end)))
    return [_choose_places(passages, found[term]) for term in terms]


def _choose_places(passages: Sequence[MappedPassage], found: Sequence[tuple[str, WordPlace]]) -> tuple[WordPlace, ...]:
    spelling, _ = Counter(spelled for spelled, _ in found).most_common(1)[0]
    alike = [place for spelled, place in found if spelled == spelling]
    by_document = {passages[place.passage].document: place for place in reversed(alike)}
    first = list(by_document.values())[::-1]
    return tuple([*first, *(place for place in alike if place not in first)][:PLACES_PER_WORD])
