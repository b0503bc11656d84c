"""Ids, links, timestamps and job statuses in the format that several contracts share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from knowledge.model import Hit, JobStatus, Json, Ref

STATUS_NAMES = {JobStatus.PROCESSING: "running", JobStatus.PARTIAL: "completed"}
DOCUMENT_SCHEME = "document"
CHUNKS_BEFORE_HIT, MIN_LINKED_CHUNKS = 2, 8


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


def make_link(document: UUID, first: int = 0, count: int | None = None) -> str:
    """Return the URI of a document, or of some of its chunks."""
    return f"{DOCUMENT_SCHEME}://{document}" + ("" if count is None else f"?from={first}&count={count}")


def dump_location(hit: Hit) -> Json:
    """Return the field with path and lines of source code; empty for other documents."""
    return {} if hit.lines is None or hit.location is None else {"location": hit.location}


def link_hit(hit: Hit) -> str:
    """Return the URI of the chunks around a hit."""
    first, last = hit.indexes
    start = max(first - CHUNKS_BEFORE_HIT, 0)
    return make_link(hit.document.uid, start, max(last - start + 1 + CHUNKS_BEFORE_HIT, MIN_LINKED_CHUNKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLinks:
    """Makes web addresses of passages on this server; without a web address, URIs of MCP resources."""

    base_url: str = ""
    """Scheme, host and path under which the client reaches the server; empty over stdio."""
    has_page: bool = True

    def link_passage(self, document: UUID, chunk: int) -> str:
        """Return the address that opens a document at a chunk, or its REST address if the page is off."""
        if not self.base_url:
            return make_link(document, chunk, MIN_LINKED_CHUNKS)
        base = self.base_url.rstrip("/")
        return f"{base}/d/{document}?at={chunk}" if self.has_page else f"{base}/api/v1/documents/{document}"
