"""The small words that all nouns are made of."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
else:
    # pydantic cannot resolve an alias that refers to itself; as `object` it passes the values through unchanged.
    JsonValue = object
Json: TypeAlias = dict[str, JsonValue]

Ref: TypeAlias = int | UUID
"""How a document, a job or a chunk is named: by its number or by its UUID."""
CollectionRef: TypeAlias = int | UUID | str
"""A collection can also be named by its name."""

DEFAULT_COLLECTION = "documents"

LOCAL_OWNER = 0
"""Owns everything that no account owns."""
SAGE_OWNER = -1
"""Owns the layers of contract 003, which nobody else sees."""

ReportProgress: TypeAlias = Callable[[str, int, int], None]
"""Progress goes in as a callable: step, done, total."""


def now() -> datetime:
    return datetime.now(UTC)


def new_uid() -> UUID:
    return uuid.uuid4()
