"""Ids, timestamps and job statuses in the format that several contracts share."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from knowledge.model import JobStatus, Ref

STATUS_NAMES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}


def format_timestamp(when: datetime) -> str:
    """Format a time as RFC 3339 in UTC with whole seconds."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_status(status: JobStatus) -> str:
    """Return the name of a job status in contracts 000 and 002."""
    return STATUS_NAMES.get(status, status.value)


def parse_ref(text: str) -> Ref | None:
    """Parse an id (integer or UUID); return None if it is neither."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 19 else None
    try:
        return UUID(text)
    except ValueError:
        return None
