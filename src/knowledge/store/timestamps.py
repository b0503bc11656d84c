"""Moments as the database keeps them: microseconds since 1970, UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from knowledge.model import now

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def stamp(moment: datetime | None = None) -> int:
    return ((moment or now()) - EPOCH) // MICROSECOND


def moment(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def moment_or_none(value: int | None) -> datetime | None:
    return None if value is None else moment(value)
