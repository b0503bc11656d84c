"""One relevance from 0 to 1, whatever a passage was found by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.engine.search import fusion
from knowledge.engine.search.fusion import GRANITE, MINILM, Candidates


def candidates(
    *rows: tuple[float, float], ceiling: float = 10.0, ranks: tuple[tuple[int, int], ...] = ()
) -> Candidates:
    """Rows of BM25 and cosine; the ids count from 1."""
    bm25, cosine = np.array(rows, np.float64).reshape(-1, 2).T
    words_rank, meaning_rank = np.array(ranks or [(0, 0)] * len(rows), np.int64).reshape(-1, 2).T
    return Candidates(
        np.arange(1, len(rows) + 1), bm25, ceiling, cosine, words_rank, meaning_rank, np.arange(len(rows))
    )


def order(ranking: fusion.Ranking) -> list[int]:
    return [int(place) + 1 for place in ranking.order]


def test_words_and_meaning_are_fused_by_their_weights() -> None:
    ranking = fusion.hybrid(candidates((5.0, 0.8)), GRANITE)
    score = 0.4 * 0.5 + 0.6 * (0.8 - 0.5) / 0.5
    assert ranking.score[0] == pytest.approx(score)
    assert ranking.relevance[0] == pytest.approx(1 / (1 + np.exp(3.94 - 10.94 * score)))


def test_a_passage_that_both_sides_like_comes_first() -> None:
    assert order(fusion.hybrid(candidates((6.0, 0.6), (5.0, 0.85), (0.0, 0.9)), GRANITE)) == [2, 3, 1]


def test_a_passage_without_a_vector_is_judged_by_words_on_the_same_scale() -> None:
    ranking = fusion.hybrid(candidates((8.0, np.nan), (0.0, 0.55)), GRANITE)
    alone = fusion.words_alone(candidates((8.0, np.nan)))
    assert ranking.relevance[0] == pytest.approx(alone.relevance[0])
    assert order(ranking) == [1, 2]


def test_what_holds_the_quoted_words_stands_above_what_does_not() -> None:
    plain = candidates((9.0, 0.9), (1.0, 0.6), (8.0, 0.85))
    assert order(fusion.hybrid(plain, GRANITE)) == [1, 3, 2]
    ranking = fusion.hybrid(replace(plain, quoted=np.array([False, True, False])), GRANITE)
    assert order(ranking) == [2, 1, 3]
    assert ranking.relevance[1] == fusion.hybrid(plain, GRANITE).relevance[1]


def test_what_lacks_the_quoted_words_never_reaches_one_half() -> None:
    found = replace(candidates((9.0, 0.9), (9.0, 0.95)), quoted=np.array([False, True]))
    lacking, holding = fusion.hybrid(found, GRANITE).relevance
    assert lacking < fusion.UNQUOTED < holding


def test_each_mode_has_its_own_curve() -> None:
    found = candidates((5.0, 0.8))
    assert fusion.words_alone(found).relevance[0] == pytest.approx(1 / (1 + np.exp(2.08 - 7.88 * 0.5)))
    assert fusion.meaning_alone(found, GRANITE).relevance[0] == pytest.approx(1 / (1 + np.exp(12.38 - 17.04 * 0.8)))


def test_a_foreign_question_stays_below_one_half_in_every_mode() -> None:
    found = candidates((1.0, 0.58))
    for ranking in (fusion.hybrid(found, GRANITE), fusion.words_alone(found), fusion.meaning_alone(found, GRANITE)):
        assert ranking.relevance[0] < 0.3


def test_equal_passages_keep_the_order_of_their_ids() -> None:
    assert order(fusion.hybrid(candidates(*[(3.0, 0.7)] * 5), GRANITE)) == [1, 2, 3, 4, 5]


def test_a_model_is_known_by_its_name() -> None:
    assert fusion.calibration("granite-embedding-30m-english") is GRANITE
    assert fusion.calibration("sentence-transformers/all-MiniLM-L6-v2") is MINILM
    assert fusion.calibration("somebody/else") is None


def test_an_unknown_model_is_fused_by_rank_and_says_so() -> None:
    found = candidates((9.0, 0.1), (8.0, 0.9), (0.0, 0.8), ranks=((0, -1), (1, 0), (-1, 1)))
    ranking = fusion.hybrid(found, None)
    assert order(ranking) == [2, 1, 3]
    assert not ranking.calibrated
    assert fusion.hybrid(candidates((9.0, 0.9)), None).relevance[0] == pytest.approx(1.0)
    assert fusion.hybrid(found, GRANITE).calibrated


def test_a_question_of_words_that_nobody_has_scores_nothing() -> None:
    assert fusion.words_alone(candidates((0.0, 0.6), ceiling=0.0)).score[0] == 0.0


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(-1, 1) | st.just(float("nan"))), max_size=30))
def test_relevance_lies_between_0_and_1_and_gives_the_order(rows: list[tuple[float, float]]) -> None:
    for model in (GRANITE, MINILM, None):
        for ranking in (fusion.hybrid(candidates(*rows), model), fusion.meaning_alone(candidates(*rows), model)):
            ordered = ranking.relevance[ranking.order]
            assert ((ordered >= 0) & (ordered <= 1)).all()
            assert (np.diff(ordered) <= 0).all()
