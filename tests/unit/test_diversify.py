"""Diversification: runs of adjacent chunks, near-duplicates, and repeats of one document."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from knowledge.engine.search.diversify import (
    MAX_COMPARED_PASSAGES,
    MAX_RUN_CHUNKS,
    Arrangement,
    CandidatePositions,
    count_earlier_in_document,
    diversify_ranking,
    find_runs,
    mark_near_duplicates,
)


def where(*positions: tuple[int, int]) -> CandidatePositions:
    documents, places = np.asarray(positions, np.int64).reshape(-1, 2).T
    return CandidatePositions(documents, places)


def by_relevance(relevance: list[float]) -> NDArray[np.int64]:
    return np.argsort(-np.asarray(relevance), kind="stable")


def runs_of(relevance: list[float], *positions: tuple[int, int]) -> dict[int, tuple[int, ...]]:
    return find_runs(by_relevance(relevance), np.asarray(relevance), where(*positions))


def different(places: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.eye(len(places), dtype=np.bool_)


def all_the_same(places: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.ones((len(places), len(places)), np.bool_)


def diversify(relevance: list[float], *positions: tuple[int, int], same: bool = False) -> Arrangement:
    numbers = np.asarray(relevance)
    return diversify_ranking(by_relevance(relevance), numbers, where(*positions), all_the_same if same else different)


def test_adjacent_relevant_chunks_are_one_run_in_reading_order() -> None:
    assert runs_of([0.7, 0.9, 0.8], (1, 11), (1, 10), (1, 12)) == {1: (1, 0, 2)}


def test_an_irrelevant_chunk_does_not_join_its_neighbours() -> None:
    assert runs_of([0.9, 0.4, 0.8], (1, 10), (1, 11), (1, 12)) == {}


def test_chunks_of_different_documents_are_not_joined() -> None:
    assert runs_of([0.9, 0.8], (1, 10), (2, 11)) == {}


def test_a_run_grows_from_its_best_chunk_to_the_maximum_length() -> None:
    relevance = [0.6, 0.6, 0.6, 0.6, 0.95, 0.9, 0.6, 0.6, 0.6, 0.6]
    runs = runs_of(relevance, *((1, place) for place in range(10)))
    assert len(runs[4]) == MAX_RUN_CHUNKS and {4, 5} <= set(runs[4])
    assert sorted(place for run in runs.values() for place in run) == list(range(9))


def test_one_document_does_not_fill_the_list_when_others_match() -> None:
    crowd = [(1, 2 * place) for place in range(8)]
    order = diversify([0.9] * 8 + [0.6], *crowd, (2, 50)).order.tolist()
    assert order[:3] == [0, 1, 2] and order.index(8) == 3


def test_one_document_fills_the_list_when_nothing_else_matches() -> None:
    crowd = [(1, 2 * place) for place in range(8)]
    assert diversify([0.9 - place / 100 for place in range(8)], *crowd).order.tolist() == list(range(8))


def test_a_passage_half_as_relevant_does_not_overtake() -> None:
    crowd = [(1, 2 * place) for place in range(8)]
    assert diversify([0.9] * 8 + [0.45], *crowd, (2, 50)).order.tolist()[-1] == 8


def test_near_duplicates_get_half_the_weight() -> None:
    found = diversify([0.9, 0.9, 0.9], (1, 10), (2, 20), (3, 30), same=True)
    assert found.weight.tolist() == [0.9, 0.45, 0.45]


def test_all_near_duplicates_of_one_passage_are_marked() -> None:
    order = np.arange(5 * MAX_COMPARED_PASSAGES)
    assert mark_near_duplicates(order, all_the_same).sum() == len(order) - 1


def test_a_passage_is_a_duplicate_only_of_a_higher_ranked_one() -> None:
    def alike(places: NDArray[np.int64]) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = np.subtract.outer(places % 3, places % 3) == 0
        return same

    assert mark_near_duplicates(np.array([4, 1, 2, 7, 0]), alike).tolist() == [False, True, False, True, False]


def test_earlier_passages_of_a_document_are_counted() -> None:
    assert count_earlier_in_document(np.array([7, 3, 7, 7, 3])).tolist() == [0, 0, 1, 2, 1]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4), st.booleans()), max_size=60))
def test_every_passage_is_shown_once_and_relevance_never_rises(rows: list[tuple[float, int, bool]]) -> None:
    relevance = [row[0] for row in rows]
    places, at = [], 0
    for _, document, gap in rows:
        at += 2 if gap else 1
        places.append((document, at))
    found = diversify(relevance, *places)
    once = sorted(place for best in found.order.tolist() for place in found.runs.get(best, (best,)))
    assert once == list(range(len(rows)))
    assert (np.diff(found.relevance) <= 0).all()
