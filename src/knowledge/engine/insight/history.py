"""Joins the measurements of hours to the points of a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from knowledge.model.insight import HistoryPoint
from knowledge.store.insight.measurements import HourRow, OwnerCounts

MAX_POINTS = 32
MAX_HOURS = 31 * 24
STEPS = (1, 2, 3, 6, 12, 24)
"""Hours that one point may stand for."""


def choose_step(hours: int) -> int:
    """Return how many hours a point stands for, so that there are at most MAX_POINTS."""
    return next(step for step in STEPS if hours <= MAX_POINTS * step)


def join_hours(
    rows: Sequence[HourRow], before: Mapping[int, OwnerCounts], *, last_hour: int, hours: int
) -> list[HistoryPoint]:
    """Return the points of the last hours; counts hold until the next row of the same owner.

    The last point ends with the current hour. Owners are added up.
    """
    step = choose_step(hours)
    first = last_hour - step * -(-hours // step) + 1
    counts, points, place = dict(before), [], 0
    for begin in range(first, last_hour + 1, step):
        searches, total_ms, slowest = 0, 0.0, 0.0
        while place < len(rows) and rows[place].hour < begin + step:
            row, place = rows[place], place + 1
            if row.documents is not None:
                counts[row.owner] = OwnerCounts(row.documents, row.queued or 0)
            if row.hour >= begin:
                searches, total_ms = searches + row.searches, total_ms + row.total_ms
                slowest = max(slowest, row.slowest_ms)
        points.append(
            HistoryPoint(
                at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=begin),
                documents=sum(each.documents for each in counts.values()) if counts else None,
                queued=sum(each.queued for each in counts.values()) if counts else None,
                searches=searches,
                mean_ms=round(total_ms / searches, 1) if searches else None,
                slowest_ms=round(slowest, 1) if searches else None,
            )
        )
    return points
