"""What stands on a page: neighbours that match become one passage, copies and crowds of one document go further down.

Pure, but for what it asks the index about the passages. It looks at all candidates, whichever page is asked for, so
pages neither repeat nor skip.
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
"""Passages: about a thousand tokens, which is as much as one answer should take of a reader's window."""
REPEAT_FACTOR, MAX_REPEATS = 0.85, 4
"""What the second passage of a document counts of its relevance; the third this much of that, to the fifth. So
whatever else is relevant stands above the fifth of one document, and what is half as relevant never does."""
REPEAT_WEIGHTS = REPEAT_FACTOR ** np.arange(MAX_REPEATS + 1)
NEAR_DUPLICATE_WEIGHT = 0.5
MAX_COMPARED_PASSAGES = 20
"""How many different passages are compared with each other."""
ABOVE_MASK = np.tri(MAX_COMPARED_PASSAGES, k=-1, dtype=np.bool_)
"""For each of them, which ones stand above it."""

CandidateRows: TypeAlias = NDArray[np.int64]
"""Where passages stand in Candidates."""
FindNearDuplicates: TypeAlias = Callable[[CandidateRows], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class CandidatePositions:
    """Where candidates stand in the index: one further for the next passage of the same document."""

    documents: NDArray[np.int64]
    places: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Passages in the order in which they are shown, each by its best candidate."""

    order: CandidateRows
    relevance: Numbers
    """Of each in that order. It never rises: what was moved down shows no more than what stands above it."""
    weight: Numbers
    """What the order goes by."""
    runs: Mapping[int, tuple[int, ...]]
    """The candidates of a passage that is joined from several, in reading order, by its best one."""

    def run_of(self, best: int) -> tuple[int, ...]:
        """All that the passage of this candidate is made of."""
        return self.runs.get(best) or (best,)


def arrange_candidates(candidates: Candidates, ranking: Ranking, threshold: float, index: IndexSnapshot) -> Arrangement:
    """What passes the threshold, as it is shown."""
    passing = ranking.order if threshold <= 0.0 else ranking.order[ranking.relevance[ranking.order] >= threshold]
    where = CandidatePositions(candidates.documents, candidates.places)
    return diversify_ranking(
        passing, ranking.relevance, where, lambda places: index.find_near_duplicates(candidates.ids[places])
    )


def diversify_ranking(
    order: CandidateRows, relevance: Numbers, where: CandidatePositions, same: FindNearDuplicates
) -> Arrangement:
    runs = find_runs(order, relevance, where)
    leading = keep_run_leaders(order, runs)
    again = REPEAT_WEIGHTS.take(count_earlier_in_document(where.documents.take(leading)), mode="clip")
    again[mark_near_duplicates(leading, same)] = NEAR_DUPLICATE_WEIGHT
    weight = relevance.take(leading) * again
    heaviest = (-weight).argsort(kind="stable")
    shown = leading.take(heaviest)
    return Arrangement(shown, np.minimum.accumulate(relevance.take(shown)), weight.take(heaviest), runs)


def find_runs(order: CandidateRows, relevance: Numbers, where: CandidatePositions) -> dict[int, tuple[int, ...]]:
    """Runs of passages that stand side by side in one document and are all relevant, grown from the best on."""
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
    """Those of them whose places are beside each other's, by place, the best first."""
    by_place = places.argsort()
    ascending = places.take(by_place)
    beside = (ascending[1:] - ascending[:-1] == 1).nonzero()[0]
    near = sorted({*by_place.take(beside).tolist(), *by_place.take(beside + 1).tolist()})
    return dict(zip(places.take(near).tolist(), order.take(near).tolist(), strict=True)) if near else {}


def grow_run(place: int, free: Mapping[int, int], relevance: Numbers, documents: CandidateRows) -> tuple[int, int]:
    """The first and last place of the run around this one: the better neighbour first, until it is long enough."""
    document = documents[free[place]]
    first = last = place

    def worth(at: int) -> float:
        candidate = free.get(at)
        return -1.0 if candidate is None or documents[candidate] != document else float(relevance[candidate])

    while last - first + 1 < MAX_RUN_CHUNKS:
        before, after = worth(first - 1), worth(last + 1)
        if max(before, after) < 0.0:
            break
        first, last = (first - 1, last) if before > after else (first, last + 1)
    return first, last


def keep_run_leaders(order: CandidateRows, runs: Mapping[int, tuple[int, ...]]) -> CandidateRows:
    """Each run by its best passage alone."""
    followers = [place for best, run in runs.items() for place in run if place != best]
    if not followers:
        return order
    leads = np.ones(int(order.max()) + 1, np.bool_)
    leads[followers] = False
    return order[leads[order]]


def count_earlier_in_document(documents: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many passages of the same document stand above each."""
    by_document = documents.argsort(kind="stable")
    grouped = documents[by_document]
    numbers = np.empty(len(documents), np.int64)
    numbers[by_document] = np.arange(len(documents)) - grouped.searchsorted(grouped)
    return numbers


def mark_near_duplicates(order: CandidateRows, same: FindNearDuplicates) -> NDArray[np.bool_]:
    """Marks passages that are near-duplicates of a higher ranked one."""
    copied = np.zeros(len(order), np.bool_)
    different = order[:0]
    looked_at = 0
    while len(different) < MAX_COMPARED_PASSAGES and looked_at < len(order):
        part = order[looked_at : looked_at + MAX_COMPARED_PASSAGES - len(different)]
        pairs = same(np.concatenate([different, part]))
        earlier = (pairs & ABOVE_MASK[: len(pairs), : len(pairs)])[len(different) :].any(axis=1)
        copied[looked_at : looked_at + len(part)] = earlier
        different = np.concatenate([different, part[~earlier]])
        looked_at += len(part)
    return copied
