"""Fusion of BM25 and cosine into a calibrated relevance from 0 to 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.search import fusion
from knowledge.engine.search.fusion import GRANITE_CALIBRATION, MINILM_CALIBRATION
from knowledge.index.api import Candidates


def candidates(
    *rows: tuple[float, float], ceiling: float = 10.0, ranks: tuple[tuple[int, int], ...] = ()
) -> Candidates:
    """Rows of BM25 and cosine; the ids count from 1."""
    bm25, cosine = np.array(rows, np.float64).reshape(-1, 2).T
    words_rank, meaning_rank = np.array(ranks or [(0, 0)] * len(rows), np.int64).reshape(-1, 2).T
    places = np.arange(len(rows))
    return Candidates(places + 1, bm25, ceiling, cosine, words_rank, meaning_rank, documents=places, places=places)


def order(ranking: fusion.Ranking) -> list[int]:
    return [int(place) + 1 for place in ranking.order]


def test_words_and_meaning_are_fused_by_their_weights() -> None:
    ranking = fusion.rank_hybrid(candidates((5.0, 0.8)), GRANITE_CALIBRATION)
    score = 0.4 * 0.5 + 0.6 * (0.8 - 0.5) / 0.5
    assert ranking.score[0] == pytest.approx(score)
    assert ranking.relevance[0] == pytest.approx(1 / (1 + np.exp(3.94 - 10.94 * score)))


def test_a_passage_found_by_both_sides_comes_first() -> None:
    assert order(fusion.rank_hybrid(candidates((6.0, 0.6), (5.0, 0.85), (0.0, 0.9)), GRANITE_CALIBRATION)) == [2, 3, 1]


def test_a_passage_without_a_vector_is_scored_by_words_on_the_same_scale() -> None:
    ranking = fusion.rank_hybrid(candidates((8.0, np.nan), (0.0, 0.55)), GRANITE_CALIBRATION)
    alone = fusion.rank_by_words(candidates((8.0, np.nan)))
    assert ranking.relevance[0] == pytest.approx(alone.relevance[0])
    assert order(ranking) == [1, 2]


def test_candidates_with_the_quoted_phrase_rank_above_those_without() -> None:
    plain = candidates((9.0, 0.9), (1.0, 0.6), (8.0, 0.85))
    assert order(fusion.rank_hybrid(plain, GRANITE_CALIBRATION)) == [1, 3, 2]
    ranking = fusion.rank_hybrid(replace(plain, quoted=np.array([False, True, False])), GRANITE_CALIBRATION)
    assert order(ranking) == [2, 1, 3]
    assert ranking.relevance[1] == fusion.rank_hybrid(plain, GRANITE_CALIBRATION).relevance[1]


def test_candidates_without_the_quoted_phrase_stay_below_one_half() -> None:
    found = replace(candidates((9.0, 0.9), (9.0, 0.95)), quoted=np.array([False, True]))
    without, with_phrase = fusion.rank_hybrid(found, GRANITE_CALIBRATION).relevance
    assert without < fusion.MAX_UNQUOTED_FACTOR < with_phrase


def test_each_mode_has_its_own_curve() -> None:
    found = candidates((5.0, 0.8))
    assert fusion.rank_by_words(found).relevance[0] == pytest.approx(1 / (1 + np.exp(2.08 - 7.88 * 0.5)))
    assert fusion.rank_by_meaning(found, GRANITE_CALIBRATION).relevance[0] == pytest.approx(
        1 / (1 + np.exp(12.38 - 17.04 * 0.8))
    )


def test_an_unrelated_question_stays_below_one_half_in_every_mode() -> None:
    found = candidates((1.0, 0.58))
    for ranking in (
        fusion.rank_hybrid(found, GRANITE_CALIBRATION),
        fusion.rank_by_words(found),
        fusion.rank_by_meaning(found, GRANITE_CALIBRATION),
    ):
        assert ranking.relevance[0] < 0.3


def test_ties_are_ordered_by_id() -> None:
    assert order(fusion.rank_hybrid(candidates(*[(3.0, 0.7)] * 5), GRANITE_CALIBRATION)) == [1, 2, 3, 4, 5]


def test_a_calibration_is_found_by_the_name_of_the_model() -> None:
    assert fusion.find_calibration("granite-embedding-30m-english") is GRANITE_CALIBRATION
    assert fusion.find_calibration("sentence-transformers/all-MiniLM-L6-v2") is MINILM_CALIBRATION
    assert fusion.find_calibration("somebody/else") is None


def test_an_unknown_model_uses_reciprocal_rank_fusion_and_is_uncalibrated() -> None:
    found = candidates((9.0, 0.1), (8.0, 0.9), (0.0, 0.8), ranks=((0, -1), (1, 0), (-1, 1)))
    ranking = fusion.rank_hybrid(found, None)
    assert order(ranking) == [2, 1, 3]
    assert not ranking.calibrated
    assert fusion.rank_hybrid(candidates((9.0, 0.9)), None).relevance[0] == pytest.approx(1.0)
    assert fusion.rank_hybrid(found, GRANITE_CALIBRATION).calibrated


def test_a_question_of_unknown_words_scores_zero() -> None:
    assert fusion.rank_by_words(candidates((0.0, 0.6), ceiling=0.0)).score[0] == 0.0


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(-1, 1) | st.just(float("nan"))), max_size=30))
def test_relevance_is_between_0_and_1_and_determines_the_order(rows: list[tuple[float, float]]) -> None:
    for model in (GRANITE_CALIBRATION, MINILM_CALIBRATION, None):
        for ranking in (fusion.rank_hybrid(candidates(*rows), model), fusion.rank_by_meaning(candidates(*rows), model)):
            ordered = ranking.relevance[ranking.order]
            assert ((ordered >= 0) & (ordered <= 1)).all()
            assert (np.diff(ordered) <= 0).all()
