"""What commands print with --json where `/api/v1` has no shape of its own for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from knowledge.extract.base import Facts
from knowledge.model import ExtractionMethod, Job
from knowledge.wire import DocumentShape, ErrorFacts


class OutcomeShape(TypedDict):
    """What became of one file."""

    name: str
    document_id: int | None
    job: NotRequired[Job]
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
    before: str | None
    """Where a renamed file was."""
    document_id: int | None
    job: NotRequired[Job]
    error: NotRequired[ErrorFacts]


class EditedShape(TypedDict):
    documents: list[DocumentShape]


class TouchedJobsShape(TypedDict):
    jobs: list[Job]


class ReindexedShape(TypedDict):
    reindexed: bool
    """False while the vectors of another model are being made."""
    model: str | None


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


@dataclass(frozen=True)
class PageShape:
    number: int | None
    text: str
    method: ExtractionMethod
    warning: str | None


@dataclass(frozen=True)
class ExtractedShape(Facts):
    pages: tuple[PageShape, ...] = ()


class MeasuresShape(TypedDict):
    """Each from 0 to 1, over the first ten places."""

    ndcg: float
    recall: float
    mrr: float


class ExpectationShape(TypedDict):
    document: str | None
    passage: str | None


class TopShape(TypedDict):
    """What stood on top."""

    document_id: int
    title: str
    source_path: str | None
    text: str
    score: float


class JudgedShape(MeasuresShape):
    """What became of one question."""

    question: str
    expected: list[ExpectationShape]
    rank: int | None
    top: TopShape | None


class EstimateShape(TypedDict):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float


class ComparisonShape(MeasuresShape):
    """The last run's measures, and the difference over the questions that both have."""

    at: str
    questions: int
    ndcg_difference: EstimateShape
    better: list[str]
    worse: list[str]


class EvaluationShape(MeasuresShape):
    file: str
    mode: str
    collections: list[str]
    questions: int
    results: list[JudgedShape]
    last: ComparisonShape | None
    notes: list[str]
    missing_documents: list[str]
