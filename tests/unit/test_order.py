"""Sorting by score with ties, compared with a plain sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from knowledge.index.vectors import sort_best_first


@given(st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1), st.integers(0, 99))))
def test_the_highest_score_comes_first_and_of_equals_the_lowest_number(rows: list[tuple[float, int]]) -> None:
    scores, numbers = np.array([score for score, _ in rows]), np.array([number for _, number in rows], np.int64)
    order = sort_best_first(scores, numbers).tolist()
    assert sorted(order) == list(range(len(rows)))
    assert [(-rows[at][0], rows[at][1]) for at in order] == sorted((-score, number) for score, number in rows)
