"""Statistics of benchmark comparisons, checked by hand-computed values."""

from __future__ import annotations

import pytest

from comparison import compute_auc, mean_difference, share_above


def test_every_set_counts_the_same_however_many_questions_it_has() -> None:
    many, few = ([1.0] * 90, [0.0] * 90), ([0.0] * 3, [0.5] * 3)
    gain = mean_difference([many, few])
    assert (gain.low, gain.mean, gain.high) == pytest.approx((0.25, 0.25, 0.25))


def test_an_inconsistent_difference_has_an_interval_around_zero() -> None:
    gain = mean_difference([([1.0, 0.0] * 20, [0.0, 1.0] * 20), ([0.5] * 10, [0.5] * 10)])
    assert gain.low < 0 < gain.high
    assert gain == mean_difference([([1.0, 0.0] * 20, [0.0, 1.0] * 20), ([0.5] * 10, [0.5] * 10)])


def test_questions_are_compared_with_themselves() -> None:
    before = [0.0, 0.9, 0.2, 0.7]
    gain = mean_difference([([value + 0.1 for value in before], before)])
    assert (gain.low, gain.high) == pytest.approx((0.1, 0.1))
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        mean_difference([([0.1, 0.2], [0.1])])


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    assert compute_auc([0.9, 0.8], [0.1, 0.7]) == 1.0
    assert compute_auc([0.1], [0.9, 0.8]) == 0.0
    assert compute_auc([0.9, 0.3], [0.5, 0.1]) == 0.75
    assert compute_auc([0.5, 0.5], [0.5]) == 0.5


def test_a_value_on_the_threshold_passes() -> None:
    assert share_above([0.5, 0.49, 0.9, 0.0], 0.5) == 0.5
    assert share_above([], 0.5) == 0.0
