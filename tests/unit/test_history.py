"""Measurements of hours become the points of a plot."""

from __future__ import annotations

import pytest

from knowledge.engine.insight.history import MAX_HOURS, MAX_POINTS, choose_step, join_hours
from knowledge.store.insight.measurements import HourRow, OwnerCounts


@pytest.mark.parametrize(("hours", "step"), [(1, 1), (24, 1), (32, 1), (33, 2), (168, 6), (MAX_HOURS, 24)])
def test_a_point_stands_for_as_many_hours_as_needed(hours: int, step: int) -> None:
    assert choose_step(hours) == step
    points = join_hours([], {}, last_hour=1000, hours=hours)
    assert len(points) <= MAX_POINTS and len(points) * step >= hours


def test_counts_hold_until_the_next_row_of_the_same_owner() -> None:
    rows = [
        HourRow(1, 98, 5, 1, 2, 100.0, 70.0),
        HourRow(2, 99, 7, 0, 1, 30.0, 30.0),
        HourRow(1, 100, None, None, 3, 60.0, 40.0),
    ]
    points = join_hours(rows, {1: OwnerCounts(4, 0)}, last_hour=100, hours=4)
    assert [(each.documents, each.queued, each.searches) for each in points] == [
        (4, 0, 0),
        (5, 1, 2),
        (12, 1, 1),
        (12, 1, 3),
    ]
    assert [(each.mean_ms, each.slowest_ms) for each in points] == [
        (None, None),
        (50.0, 70.0),
        (30.0, 30.0),
        (20.0, 40.0),
    ]


def test_what_is_not_known_is_no_zero() -> None:
    (point,) = join_hours([], {}, last_hour=100, hours=1)
    assert (point.documents, point.queued, point.searches) == (None, None, 0)
