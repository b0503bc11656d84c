"""JSON shapes of `--json` output that `/api/v1` does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from knowledge.extract.base import Facts
from knowledge.model import ExtractionMethod, Job
from knowledge.wire import DocumentShape, ErrorFacts


class OutcomeShape(TypedDict):
    """The outcome of one file."""

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
    """One line per change in a watched folder."""

    event: str
    name: str
    before: str | None
    """The old path of a renamed file."""
    document_id: int | None
    job: NotRequired[Job]
    error: NotRequired[ErrorFacts]


class EditedShape(TypedDict):
    documents: list[DocumentShape]


class TouchedJobsShape(TypedDict):
    jobs: list[Job]


class ReindexedShape(TypedDict):
    reindexed: bool
    """False while the chunks are being embedded with another model."""
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
    """nDCG@10, recall@10 and MRR@10, each from 0 to 1."""

    ndcg: float
    recall: float
    mrr: float


class ExpectationShape(TypedDict):
    document: str | None
    passage: str | None


class TopShape(TypedDict):
    """The first hit."""

    document_id: int
    title: str
    source_path: str | None
    text: str
    score: float


class JudgedShape(MeasuresShape):
    """The result of one question."""

    question: str
    expected: list[ExpectationShape]
    rank: int | None
    top: TopShape | None


class EstimateShape(TypedDict):
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


class ComparisonShape(MeasuresShape):
    """The measures of the last run, and the difference over the questions of both runs."""

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
