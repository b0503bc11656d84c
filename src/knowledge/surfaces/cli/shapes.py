"""What commands print with --json where `/api/v1` has no shape of its own for it."""

from __future__ import annotations

from typing import NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from knowledge.wire.shapes import DocumentShape, ErrorFacts, JobShape


class OutcomeShape(TypedDict):
    """What became of one file."""

    name: str
    document_id: int | None
    job: NotRequired[JobShape]
    error: NotRequired[ErrorFacts]


class SkippedShape(TypedDict):
    unsupported: dict[str, int]
    empty: int


class AddShape(TypedDict):
    added: list[OutcomeShape]
    unchanged: list[OutcomeShape]
    accepted: list[OutcomeShape]
    failed: list[OutcomeShape]
    skipped: SkippedShape
    not_begun: int
    interrupted: bool


class WatchShape(TypedDict):
    """One line for each change while a folder is watched."""

    event: str
    name: str
    document_id: int | None
    job: NotRequired[JobShape]
    error: NotRequired[ErrorFacts]


class EditedShape(TypedDict):
    documents: list[DocumentShape]


class TouchedJobsShape(TypedDict):
    jobs: list[JobShape]


class ReindexedShape(TypedDict):
    reindexed: bool


class BackupShape(TypedDict):
    file: str
    size_bytes: int


class RestoredShape(TypedDict):
    data: str
    backup: dict[str, JsonValue]


class CheckShape(TypedDict):
    about: str
    ok: bool
    says: str
    mend: str


class DoctorShape(TypedDict):
    healthy: bool
    checks: list[CheckShape]


class PageShape(TypedDict):
    number: int | None
    text: str
    method: str
    warning: str | None


class ExtractedShape(TypedDict):
    doc_type: str
    title: str | None
    author: str | None
    language: str | None
    page_count: int | None
    tags: list[str]
    metadata: dict[str, JsonValue]
    pages: list[PageShape]
