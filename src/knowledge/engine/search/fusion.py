"""Fusion and calibration: what words and meaning say about a passage becomes one relevance from 0 to 1.

Pure: numbers in, numbers out. Passages are ordered by their relevance, whichever of the two knew them, so a threshold
means the same in every mode. docs/explanation/search.md has the table behind the constants.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.order import best_first

Numbers: TypeAlias = NDArray[np.float64]

RANK_CONSTANT = 60
UNQUOTED = 0.5
"""What a passage without the quoted words counts at most."""


@dataclass(frozen=True, slots=True)
class Curve:
    """The logistic curve from a score to a probability."""

    offset: float
    slope: float

    def __call__(self, score: Numbers) -> Numbers:
        relevance: Numbers = 1.0 / (1.0 + np.exp(score * -self.slope - self.offset))
        return relevance


WORDS_ALONE = Curve(-2.08, 7.88)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known about one model's cosines."""

    words_weight: float
    floor: float
    """The cosine of texts that have nothing to do with each other."""
    fused: Curve
    meaning_alone: Curve
    measured: bool = True
    """False where the curves are guesses; the order is right, the numbers are not promised."""

    def fuse(self, words: Numbers, cosine: Numbers) -> Numbers:
        above = np.maximum(cosine - self.floor, 0.0)
        fused: Numbers = words * self.words_weight + above * ((1.0 - self.words_weight) / (1.0 - self.floor))
        return fused


GRANITE = Calibration(0.4, 0.5, fused=Curve(-3.94, 10.94), meaning_alone=Curve(-12.38, 17.04))
MINILM = Calibration(0.5, 0.0, fused=Curve(-3.94, 10.94), meaning_alone=Curve(-4.5, 11.0), measured=False)

CALIBRATIONS = {"granite-embedding-30m-english": GRANITE, "all-minilm-l6-v2": MINILM}


def calibration(model: str) -> Calibration | None:
    """The constants of a model by its name; None for one that nobody has measured."""
    name = model.lower()
    return next((known for part, known in CALIBRATIONS.items() if part in name), None)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What the two sides found: one row a passage. A rank is -1 where that side did not find it."""

    ids: NDArray[np.int64]
    bm25: Numbers
    ceiling: float
    """What no passage can score more than."""
    cosine: Numbers
    """nan for a passage without a vector."""
    words_rank: NDArray[np.int64]
    meaning_rank: NDArray[np.int64]
    places: NDArray[np.int64]
    """Where they stand in the index."""
    quoted: NDArray[np.bool_] | None = None
    """Which hold what the question quotes; None where none does, or all."""

    def take(self, rows: NDArray[np.int64]) -> Candidates:
        """These alone."""
        return replace(
            self,
            ids=self.ids[rows],
            bm25=self.bm25[rows],
            cosine=self.cosine[rows],
            words_rank=self.words_rank[rows],
            meaning_rank=self.meaning_rank[rows],
            places=self.places[rows],
            quoted=None if self.quoted is None else self.quoted[rows],
        )

    @property
    def words(self) -> Numbers:
        """BM25 between 0 and 1."""
        if self.ceiling <= 0.0:
            return np.zeros(len(self.ids))
        return np.minimum(self.bm25 / self.ceiling, 1.0)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Places in Candidates, the most relevant first, with the score and relevance of each candidate."""

    order: NDArray[np.int64]
    score: Numbers
    relevance: Numbers
    calibrated: bool


def hybrid(found: Candidates, model: Calibration | None) -> Ranking:
    """Words and meaning fused; a passage without a vector is judged by its words alone, on the same scale."""
    if model is None:
        return by_rank(found)
    words = found.words
    score = model.fuse(words, found.cosine)
    relevance = model.fused(score)
    unread = np.isnan(found.cosine)
    if unread.any():
        score[unread], relevance[unread] = words[unread], WORDS_ALONE(words[unread])
    return _ranking(found, score, relevance, calibrated=model.measured)


def words_alone(found: Candidates) -> Ranking:
    words = found.words
    return _ranking(found, words, WORDS_ALONE(words), calibrated=True)


def meaning_alone(found: Candidates, model: Calibration | None) -> Ranking:
    cosine = np.nan_to_num(found.cosine, nan=-1.0)
    if model is None:
        return _ranking(found, cosine, np.clip(cosine, 0.0, 1.0), calibrated=False)
    return _ranking(found, cosine, model.meaning_alone(cosine), calibrated=model.measured)


def by_rank(found: Candidates) -> Ranking:
    """Reciprocal rank fusion, for a model whose cosines nobody has measured; 1 is first on both sides."""
    score = sum(
        (np.where(rank < 0, 0.0, 1.0 / (RANK_CONSTANT + 1 + rank)) for rank in (found.words_rank, found.meaning_rank)),
        np.zeros(len(found.ids)),
    )
    return _ranking(found, score, score * (RANK_CONSTANT + 1) / 2, calibrated=False)


def _ranking(found: Candidates, score: Numbers, relevance: Numbers, *, calibrated: bool) -> Ranking:
    if found.quoted is not None:
        relevance = quoted_first(relevance, found.quoted)
    return Ranking(best_first(relevance, found.ids), score, relevance, calibrated)


def quoted_first(relevance: Numbers, quoted: NDArray[np.bool_]) -> Numbers:
    """Whoever quotes gets what holds the quoted words first: the others count less than the least of those."""
    least = relevance[quoted].min(initial=UNQUOTED)
    return np.where(quoted, relevance, relevance * least)
