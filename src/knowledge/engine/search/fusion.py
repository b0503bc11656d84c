"""Fusion and calibration: combines BM25 and cosine of each candidate into a relevance from 0 to 1.

Pure functions. Candidates are ordered by relevance in every mode, so that a threshold means the same in all of them.
docs/explanation/search.md has the measurements behind the constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.index.api import Candidates
from knowledge.model.search import KEYWORD_RELEVANCE_CURVE

Numbers: TypeAlias = NDArray[np.float64]

RRF_RANK_CONSTANT = 60
MAX_UNQUOTED_FACTOR = 0.5
"""Upper limit of the factor for candidates without the quoted phrase."""


@dataclass(frozen=True, slots=True)
class LogisticCurve:
    """A logistic curve that maps a score to a probability."""

    offset: float
    slope: float

    def __call__(self, score: Numbers) -> Numbers:
        relevance: Numbers = 1.0 / (1.0 + np.exp(score * -self.slope - self.offset))
        return relevance


WORDS_RELEVANCE = LogisticCurve(*KEYWORD_RELEVANCE_CURVE)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fusion weights and logistic curves of one embedding model."""

    words_weight: float
    floor: float
    """Typical cosine of unrelated texts."""
    fused: LogisticCurve
    meaning_alone: LogisticCurve
    measured: bool = True
    """False for estimated curves, which keep the order but not the meaning of the numbers."""

    def fuse(self, words: Numbers, cosine: Numbers) -> Numbers:
        above = np.maximum(cosine - self.floor, 0.0)
        fused: Numbers = words * self.words_weight + above * ((1.0 - self.words_weight) / (1.0 - self.floor))
        return fused


GRANITE_CALIBRATION = Calibration(
    0.4, 0.5, fused=LogisticCurve(-3.94, 10.94), meaning_alone=LogisticCurve(-12.38, 17.04)
)
MINILM_CALIBRATION = Calibration(
    0.5, 0.0, fused=LogisticCurve(-3.94, 10.94), meaning_alone=LogisticCurve(-4.5, 11.0), measured=False
)

CALIBRATIONS = {"granite-embedding-30m-english": GRANITE_CALIBRATION, "all-minilm-l6-v2": MINILM_CALIBRATION}


def find_calibration(model: str) -> Calibration | None:
    """Return the calibration of a model by its name; None for an unknown model."""
    name = model.lower()
    return next((known for part, known in CALIBRATIONS.items() if part in name), None)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Rows of Candidates, most relevant first, with the score and relevance of each candidate."""

    order: NDArray[np.int64]
    score: Numbers
    relevance: Numbers
    calibrated: bool


def normalize_bm25(found: Candidates) -> Numbers:
    """Scale BM25 to 0..1 by the highest score that the query can reach."""
    if found.ceiling <= 0.0:
        return np.zeros(len(found.ids))
    return np.minimum(found.bm25 / found.ceiling, 1.0)


def rank_hybrid(candidates: Candidates, model: Calibration | None) -> Ranking:
    """Rank by BM25 and cosine; a candidate without a vector is scored by BM25 alone, on the same scale."""
    if model is None:
        return rank_by_reciprocal_rank_fusion(candidates)
    words = normalize_bm25(candidates)
    score = model.fuse(words, candidates.cosine)
    relevance = model.fused(score)
    unembedded = np.isnan(candidates.cosine)
    if unembedded.any():
        score[unembedded], relevance[unembedded] = words[unembedded], WORDS_RELEVANCE(words[unembedded])
    return _make_ranking(candidates, score, relevance, calibrated=model.measured)


def rank_by_words(candidates: Candidates) -> Ranking:
    words = normalize_bm25(candidates)
    return _make_ranking(candidates, words, WORDS_RELEVANCE(words), calibrated=True)


def rank_by_meaning(candidates: Candidates, model: Calibration | None) -> Ranking:
    cosine = np.nan_to_num(candidates.cosine, nan=-1.0)
    if model is None:
        return _make_ranking(candidates, cosine, np.clip(cosine, 0.0, 1.0), calibrated=False)
    return _make_ranking(candidates, cosine, model.meaning_alone(cosine), calibrated=model.measured)


def rank_by_reciprocal_rank_fusion(candidates: Candidates) -> Ranking:
    """Rank by reciprocal rank fusion (RRF, k=60), for a model without calibration; 1.0 means first on both sides."""
    score = sum(
        (
            np.where(rank < 0, 0.0, 1.0 / (RRF_RANK_CONSTANT + 1 + rank))
            for rank in (candidates.words_rank, candidates.meaning_rank)
        ),
        np.zeros(len(candidates.ids)),
    )
    return _make_ranking(candidates, score, score * (RRF_RANK_CONSTANT + 1) / 2, calibrated=False)


def _make_ranking(candidates: Candidates, score: Numbers, relevance: Numbers, *, calibrated: bool) -> Ranking:
    if candidates.quoted is not None:
        relevance = lower_unquoted(relevance, candidates.quoted)
    order = np.lexsort((candidates.ids, -relevance))  # ties are ordered by id
    return Ranking(order, score, relevance, calibrated)


def lower_unquoted(relevance: Numbers, quoted: NDArray[np.bool_]) -> Numbers:
    """Scale the relevance of candidates without the quoted phrase below that of all candidates with it."""
    factor = relevance[quoted].min(initial=MAX_UNQUOTED_FACTOR)
    return np.where(quoted, relevance, relevance * factor)
