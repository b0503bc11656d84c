"""A generated collection: words by Zipf's law, and vectors in clusters around a common mean.

As with a real model, unrelated vectors have a cosine of about .6 and the nearest of about .9.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

VOCABULARY_WORDS, PASSAGE_WORDS, QUESTION_WORDS = 60_000, 120, 6
COMMON_WORDS = 30
# The most frequent words play the part of stop words, which queries do not contain.
BLOCK_PASSAGES = 10_000
LETTERS = "bcdfghjkmnpqrtvwxz"
# Without vowels and s, so that the stemmer leaves every word unchanged.
COLLECTIONS = 20
# Chunks are assigned in turn, so one collection is a filter of 5 %.


@dataclass(frozen=True, slots=True)
class Recipe:
    passages: int
    dimension: int = 384
    seed: int = 1

    def texts(self) -> Iterator[list[str]]:
        """Yield the words of each chunk."""
        generator = np.random.default_rng(self.seed)
        chances = np.cumsum(_zipf_chances(1.05))
        for first in range(0, self.passages, BLOCK_PASSAGES):
            count = min(BLOCK_PASSAGES, self.passages - first)
            numbers = np.searchsorted(chances, generator.random((count, PASSAGE_WORDS)))
            yield from ([number_to_word(number) for number in row] for row in numbers.tolist())

    def questions(self, count: int) -> list[list[str]]:
        chances = _zipf_chances(0.8)
        chances[:COMMON_WORDS] = 0
        generator = np.random.default_rng(self.seed + 1)
        numbers = generator.choice(VOCABULARY_WORDS, (count, QUESTION_WORDS), p=chances / chances.sum())
        return [[number_to_word(number) for number in row] for row in numbers.tolist()]

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield blocks of unit vectors."""
        generator = np.random.default_rng(self.seed + 2)
        clusters = _Clusters(self, np.random.default_rng(self.seed + 3))
        for first in range(0, self.passages, BLOCK_PASSAGES):
            yield clusters.draw(generator, min(BLOCK_PASSAGES, self.passages - first))

    def question_vectors(self, count: int) -> NDArray[np.float32]:
        clusters = _Clusters(self, np.random.default_rng(self.seed + 3))
        return clusters.draw(np.random.default_rng(self.seed + 4), count)


class _Clusters:
    def __init__(self, recipe: Recipe, generator: np.random.Generator) -> None:
        dimension = recipe.dimension
        self._spread = np.power(np.arange(1, dimension + 1, dtype=np.float32), np.float32(-0.3))
        self._rotation = np.linalg.qr(generator.standard_normal((dimension, dimension)))[0].astype(np.float32)
        self._centers = self._scatter(generator, max(64, min(20_000, recipe.passages // 100)))
        mean = generator.standard_normal(dimension, dtype=np.float32)
        length = 1.6 * float(np.linalg.norm(self._centers, axis=1).mean() / np.linalg.norm(mean))
        self._mean = mean * np.float32(length)

    def _scatter(self, generator: np.random.Generator, count: int) -> NDArray[np.float32]:
        drawn = generator.standard_normal((count, len(self._spread)), dtype=np.float32) * self._spread
        turned: NDArray[np.float32] = drawn @ self._rotation
        return turned

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float32]:
        chosen = self._centers[generator.integers(0, len(self._centers), count)]
        rows = chosen + 0.75 * self._scatter(generator, count) + self._mean
        unit: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


@cache
def number_to_word(number: int) -> str:
    """Return a distinct word of four letters for each number."""
    return "".join(LETTERS[number // len(LETTERS) ** place % len(LETTERS)] for place in range(4))


@cache
def word_to_number(word: str) -> int:
    """Invert `number_to_word`."""
    return sum(LETTERS.index(letter) * len(LETTERS) ** place for place, letter in enumerate(word))


def _zipf_chances(power: float) -> NDArray[np.float64]:
    chances = 1.0 / np.arange(1, VOCABULARY_WORDS + 1) ** power
    scaled: NDArray[np.float64] = chances / chances.sum()
    return scaled
