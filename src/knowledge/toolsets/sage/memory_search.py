"""BM25 keyword search over sections in memory, used until the index is ready."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from knowledge.model.search import KEYWORD_RELEVANCE_CURVE
from knowledge.text import analyzer

K1, B = 1.2, 0.75
MAX_TERM_SCORE = 1 + K1
"""Limit of the BM25 term frequency factor; divides scores into the range 0 to 1."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class _TermCounts:
    counts: Counter[str]
    length: int


class MemorySearch(Generic[Key]):
    """Thread-safe in-memory index of texts by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[Key, _TermCounts] = {}

    def put(self, key: Key, text: str) -> None:
        counts = Counter(analyzer.extract_terms(text, None))
        with self._lock:
            self._entries[key] = _TermCounts(counts, counts.total())

    def remove(self, key: Key) -> None:
        with self._lock:
            self._entries.pop(key, None)

    def search(self, question: str) -> list[tuple[Key, float]]:
        """Return the keys of matching texts with their relevance from 0 to 1, best first."""
        with self._lock:
            held = dict(self._entries)
        words = Counter(analyzer.analyse_question(question, ()).terms)
        weights = {forms: self._idf(forms, held) for forms in words}
        ceiling = MAX_TERM_SCORE * sum(weights[forms] * repeats for forms, repeats in words.items())
        average = sum(entry.length for entry in held.values()) / len(held) if held else 1.0
        found: list[tuple[Key, float]] = []
        for key, entry in held.items():
            score = sum(
                weights[forms] * repeats * _score_term(entry, forms, average) for forms, repeats in words.items()
            )
            if score > 0:
                found.append((key, to_relevance(score / ceiling)))
        return sorted(found, key=lambda pair: -pair[1])

    def _idf(self, forms: tuple[str, ...], held: dict[Key, _TermCounts]) -> float:
        holding = sum(any(form in entry.counts for form in forms) for entry in held.values())
        return math.log(1 + (len(held) - holding + 0.5) / (holding + 0.5))


def to_relevance(score: float) -> float:
    """Map a normalized BM25 score to a relevance with the calibration of the engine's keyword search."""
    offset, slope = KEYWORD_RELEVANCE_CURVE
    return 1 / (1 + math.exp(-(offset + slope * score)))


def _score_term(entry: _TermCounts, forms: tuple[str, ...], average: float) -> float:
    count = max(entry.counts[form] for form in forms)
    if not count:
        return 0.0
    return count * (K1 + 1) / (count + K1 * (1 - B + B * entry.length / max(average, 1.0)))
