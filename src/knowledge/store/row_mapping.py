"""Convert rows to documents and chunks, and times to integers."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from knowledge.model import Chunk, Document, DocumentKind, DocumentStatus, ExtractionMethod, Scope, now

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_CONVERTED = (
    "collection", "owner", "kind", "tags", "status", "method", "warnings", "created_at", "updated_at", "added_by",
    "access",
)  # fmt: skip
_PLAIN_FIELDS = tuple(each.name for each in fields(Document) if each.name not in _CONVERTED)
"""Fields with the same name and value in a document and its row."""
_plain_values = attrgetter(*_PLAIN_FIELDS)


def make_timestamp(time: datetime | None = None) -> int:
    """Return microseconds since 1970 (UTC), by default of now."""
    return ((time or now()) - EPOCH) // MICROSECOND


def parse_timestamp(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def parse_optional_timestamp(value: int | None) -> datetime | None:
    return None if value is None else parse_timestamp(value)


def make_document(row: Any, scope: Scope | None = None) -> Document:
    """Make a document, with the caller's access to it if a scope is given."""
    return Document(
        access=None if scope is None else scope.find_access(row.owner_id, row.collection_id),
        collection=row.collection_name,
        owner=row.owner_id,
        kind=DocumentKind(row.kind),
        tags=tuple(row.tags),
        status=DocumentStatus(row.status),
        method=ExtractionMethod(row.method),
        warnings=tuple(row.warnings),
        created_at=parse_timestamp(row.created_at),
        updated_at=parse_timestamp(row.updated_at),
        added_by=row.added_by_name,
        **dict(zip(_PLAIN_FIELDS, _plain_values(row), strict=True)),
    )


def make_chunk(row: Any, document_id: int) -> Chunk:
    return Chunk(
        id=row.chunk_id,
        uid=row.chunk_uid,
        document_id=document_id,
        index=row.chunk_position,
        text=row.chunk_text,
        page=row.chunk_page,
        section=tuple(row.chunk_section),
        lines=None if row.chunk_first_line is None else (row.chunk_first_line, row.chunk_last_line),
    )
