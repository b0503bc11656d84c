"""How ids and times look in several contracts."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from knowledge.model import Ref


def stamp(when: datetime) -> str:
    """RFC 3339 in UTC, in whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_ref(text: str) -> Ref | None:
    """A number or a UUID, as a caller writes it; None when it is neither."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 19 else None
    try:
        return UUID(text)
    except ValueError:
        return None
