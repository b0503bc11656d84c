"""Words over a few pages in memory, for as long as there is no index: BM25, scored like a search by words alone."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from knowledge.model.search import WORDS_ALONE_CURVE
from knowledge.text import analyzer

K1, B = 1.2, 0.75
MAX_TERM_SCORE = 1 + K1

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _TermCounts:
    counts: Counter[str]
    length: int


class MemorySearch(Generic[Key]):
    """Thread-safe, and always ready to answer from what it has been given so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passages: dict[Key, _TermCounts] = {}

    def put(self, key: Key, text: str) -> None:
        counts = Counter(analyzer.extract_terms(text, None))
        with self._lock:
            self._passages[key] = _TermCounts(counts, counts.total())

    def drop(self, key: Key) -> None:
        with self._lock:
            self._passages.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._passages

    def search(self, question: str, among: Collection[Key] | None = None) -> list[tuple[Key, float]]:
        """Each passage that holds a word of the question with its relevance from 0 to 1, best first."""
        with self._lock:
            held = dict(self._passages)
        words = Counter(analyzer.analyse_question(question, ()).terms)
        weights = {forms: self._idf(forms, held) for forms in words}
        ceiling = MAX_TERM_SCORE * sum(weights[forms] * repeats for forms, repeats in words.items())
        average = sum(passage.length for passage in held.values()) / len(held) if held else 1.0
        found: list[tuple[Key, float]] = []
        for key, passage in held.items():
            score = sum(
                weights[forms] * repeats * _score_term(passage, forms, average) for forms, repeats in words.items()
            )
            if score > 0 and (among is None or key in among):
                found.append((key, to_relevance(score / ceiling)))
        return sorted(found, key=lambda pair: -pair[1])

    def _idf(self, forms: tuple[str, ...], held: dict[Key, _TermCounts]) -> float:
        holding = sum(any(form in passage.counts for form in forms) for passage in held.values())
        return math.log(1 + (len(held) - holding + 0.5) / (holding + 0.5))


def to_relevance(score: float) -> float:
    """The same curve as in a search by words alone, so that a score means the same."""
    offset, slope = WORDS_ALONE_CURVE
    return 1 / (1 + math.exp(-(offset + slope * score)))


def _score_term(passage: _TermCounts, forms: tuple[str, ...], average: float) -> float:
    count = max(passage.counts[form] for form in forms)
    if not count:
        return 0.0
    return count * (K1 + 1) / (count + K1 * (1 - B + B * passage.length / max(average, 1.0)))
