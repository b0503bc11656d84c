"""Ids and timestamps in the format that several contracts share."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from knowledge.model import Ref


def format_timestamp(when: datetime) -> str:
    """Format a time as RFC 3339 in UTC with whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_ref(text: str) -> Ref | None:
    """Parse an id (integer or UUID); return None if it is neither."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 19 else None
    try:
        return UUID(text)
    except ValueError:
        return None
