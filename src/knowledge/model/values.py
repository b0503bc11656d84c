"""Basic types, constants and helpers of the domain types."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
else:
    # pydantic cannot resolve a recursive alias; `object` passes the values through unchanged.
    JsonValue = object
Json: TypeAlias = dict[str, JsonValue]

Ref: TypeAlias = int | UUID
"""Number or UUID of a document, job or chunk."""
CollectionRef: TypeAlias = int | UUID | str
"""Number, UUID or name of a collection."""

DEFAULT_COLLECTION = "documents"

LOCAL_OWNER = 0
"""Owner of everything that belongs to no account."""
SAGE_OWNER = -1
"""Owner of the layers of contract 003, which no other owner can see."""

ReportProgress: TypeAlias = Callable[[str, int, int], None]
"""Callback for progress: step, done, total."""


def now() -> datetime:
    return datetime.now(UTC)


def new_uid() -> UUID:
    return uuid.uuid4()


class Access(StrEnum):
    """What the caller may do with a document or a collection."""

    OWN = "own"
    WRITE = "write"
    """May add, edit and remove documents of another owner's collection."""
    READ = "read"
