"""nDCG, recall, MRR and bootstrap intervals, compared with values computed by hand."""

from __future__ import annotations

import math

import pytest

from knowledge.engine import evaluate
from knowledge.engine.evaluate import Measures


def test_a_right_answer_at_rank_one_scores_one() -> None:
    assert evaluate.compute_measures(["a", "b"], {"a": 1}) == Measures(1.0, 1.0, 1.0)


def test_a_right_answer_at_rank_three_is_discounted() -> None:
    assert evaluate.compute_measures(["x", "y", "a"], {"a": 1}) == Measures(0.5, 1.0, 1 / 3)


def test_the_gain_of_a_grade_is_linear() -> None:
    best = 3 + 1 / math.log2(3)
    assert evaluate.ndcg(["one", "three"], {"three": 3, "one": 1}) == pytest.approx((1 + 3 / math.log2(3)) / best)


def test_ranks_beyond_ten_do_not_count() -> None:
    ranked = [f"other {place}" for place in range(10)] + ["a"]
    assert evaluate.compute_measures(ranked, {"a": 1}) == Measures(0.0, 0.0, 0.0)
    assert evaluate.find_first_rank(ranked, {"a": 1}) == 11


def test_recall_is_the_share_that_was_found() -> None:
    assert evaluate.recall(["a", "x"], {"a": 1, "b": 2, "judged as wrong": 0}) == 0.5


def test_without_relevant_answers_all_measures_are_zero() -> None:
    assert evaluate.compute_measures(["a"], {"a": 0}) == Measures(0.0, 0.0, 0.0)
    assert evaluate.compute_measures([], {"a": 1}) == Measures(0.0, 0.0, 0.0)


def test_a_bootstrap_interval_contains_its_mean_and_is_deterministic() -> None:
    values = [0.0, 1.0, 1.0, 0.5, 1.0, 0.0, 1.0, 1.0]
    first = evaluate.bootstrap_mean(values)
    assert first.low < first.mean < first.high
    assert first == evaluate.bootstrap_mean(values)


def test_a_constant_difference_has_an_interval_without_zero() -> None:
    before = [0.1, 0.9, 0.4, 0.6, 0.2]
    gain = evaluate.bootstrap_difference([value + 0.1 for value in before], before)
    assert (gain.low, gain.mean, gain.high) == pytest.approx((0.1, 0.1, 0.1))
    assert evaluate.bootstrap_difference([0.9, 0.1], [0.1, 0.9]).low < 0
