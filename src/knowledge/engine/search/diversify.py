"""Diversification: joins adjacent chunks, and moves near-duplicates and repeats of one document down.

Pure, except for the near-duplicate check of the index. Works on all candidates regardless of the requested page, so
that pages neither repeat nor skip a passage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from knowledge.engine.search.fusion import Numbers, Ranking
from knowledge.index.api import Candidates, IndexSnapshot

MIN_JOIN_RELEVANCE = 0.5
MAX_RUN_CHUNKS = 5
"""About a thousand tokens, to leave room in the context window of the model that reads the answer."""
# Each further passage of a document is weighted by 0.85, up to 0.85^4 = 0.52: passages of other documents come before
# the fifth of one document unless they are about half as relevant.
REPEAT_FACTOR, MAX_REPEATS = 0.85, 4
REPEAT_WEIGHTS = REPEAT_FACTOR ** np.arange(MAX_REPEATS + 1)
NEAR_DUPLICATE_WEIGHT = 0.5
MAX_COMPARED_PASSAGES = 20
ABOVE_MASK = np.tri(MAX_COMPARED_PASSAGES, k=-1, dtype=np.bool_)
"""For each compared passage, the ones ranked above it."""

CandidateRows: TypeAlias = NDArray[np.int64]
"""Row numbers in Candidates."""
FindNearDuplicates: TypeAlias = Callable[[CandidateRows], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class CandidatePositions:
    """Document and position of each candidate; adjacent chunks of a document have adjacent positions."""

    documents: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Passages in result order, each represented by its best candidate."""

    order: CandidateRows
    relevance: Numbers
    """In that order, and never rising: a passage that was moved down is capped by the one above it."""
    weight: Numbers
    """The value that is sorted by."""
    runs: Mapping[int, tuple[int, ...]]
    """The candidates of each joined passage in reading order, by its best candidate."""

    def run_of(self, best: int) -> tuple[int, ...]:
        """Return all candidates of the passage that `best` represents."""
        return self.runs.get(best) or (best,)


def arrange_candidates(candidates: Candidates, ranking: Ranking, threshold: float, index: IndexSnapshot) -> Arrangement:
    """Diversify the candidates that pass the threshold."""
    passing = ranking.order if threshold <= 0.0 else ranking.order[ranking.relevance[ranking.order] >= threshold]
    where = CandidatePositions(candidates.documents, candidates.places)
    return diversify_ranking(
        passing, ranking.relevance, where, lambda places: index.find_near_duplicates(candidates.ids[places])
    )


def diversify_ranking(
    order: CandidateRows, relevance: Numbers, where: CandidatePositions, same: FindNearDuplicates
) -> Arrangement:
    runs = find_runs(order, relevance, where)
    leaders = keep_run_leaders(order, runs)
    factors = REPEAT_WEIGHTS.take(count_earlier_in_document(where.documents.take(leaders)), mode="clip")
    factors[mark_near_duplicates(leaders, same)] = NEAR_DUPLICATE_WEIGHT
    weight = relevance.take(leaders) * factors
    by_weight = (-weight).argsort(kind="stable")
    shown = leaders.take(by_weight)
    return Arrangement(shown, np.minimum.accumulate(relevance.take(shown)), weight.take(by_weight), runs)


def find_runs(order: CandidateRows, relevance: Numbers, where: CandidatePositions) -> dict[int, tuple[int, ...]]:
    """Find runs of adjacent relevant chunks of one document, growing from the best chunk."""
    matching = order[relevance.take(order) >= MIN_JOIN_RELEVANCE]
    free = find_adjacent(matching, where.places.take(matching))
    runs: dict[int, tuple[int, ...]] = {}
    for place, best in tuple(free.items()):
        if place in free:
            first, last = grow_run(place, free, relevance, where.documents)
            run = tuple(free.pop(at) for at in range(first, last + 1))
            if len(run) > 1:
                runs[best] = run
    return runs


def find_adjacent(order: CandidateRows, places: CandidateRows) -> dict[int, int]:
    """Return the candidates that have an adjacent candidate, by position, best first."""
    by_place = places.argsort()
    ascending = places.take(by_place)
    beside = (ascending[1:] - ascending[:-1] == 1).nonzero()[0]
    near = sorted({*by_place.take(beside).tolist(), *by_place.take(beside + 1).tolist()})
    return dict(zip(places.take(near).tolist(), order.take(near).tolist(), strict=True)) if near else {}


def grow_run(place: int, free: Mapping[int, int], relevance: Numbers, documents: CandidateRows) -> tuple[int, int]:
    """Return the first and last position of the run around a candidate, adding the more relevant neighbour first."""
    document = documents[free[place]]
    first = last = place

    def relevance_at(at: int) -> float:
        candidate = free.get(at)
        return -1.0 if candidate is None or documents[candidate] != document else float(relevance[candidate])

    while last - first + 1 < MAX_RUN_CHUNKS:
        before, after = relevance_at(first - 1), relevance_at(last + 1)
        if max(before, after) < 0.0:
            break
        first, last = (first - 1, last) if before > after else (first, last + 1)
    return first, last


def keep_run_leaders(order: CandidateRows, runs: Mapping[int, tuple[int, ...]]) -> CandidateRows:
    """Drop all candidates of a run but the best."""
    followers = [place for best, run in runs.items() for place in run if place != best]
    if not followers:
        return order
    leads = np.ones(int(order.max()) + 1, np.bool_)
    leads[followers] = False
    return order[leads[order]]


def count_earlier_in_document(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each candidate how many of the same document are ranked above it."""
    by_document = documents.argsort(kind="stable")
    grouped = documents[by_document]
    numbers = np.empty(len(documents), np.int64)
    numbers[by_document] = np.arange(len(documents)) - grouped.searchsorted(grouped)
    return numbers


def mark_near_duplicates(order: CandidateRows, same: FindNearDuplicates) -> NDArray[np.bool_]:
    """Mark near-duplicates of a higher ranked candidate, until MAX_COMPARED_PASSAGES different ones are found."""
    duplicates = np.zeros(len(order), np.bool_)
    different = order[:0]
    checked = 0
    while len(different) < MAX_COMPARED_PASSAGES and checked < len(order):
        part = order[checked : checked + MAX_COMPARED_PASSAGES - len(different)]
        pairs = same(np.concatenate([different, part]))
        earlier = (pairs & ABOVE_MASK[: len(pairs), : len(pairs)])[len(different) :].any(axis=1)
        duplicates[checked : checked + len(part)] = earlier
        different = np.concatenate([different, part[~earlier]])
        checked += len(part)
    return duplicates
