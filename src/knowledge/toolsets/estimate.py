"""How long a document will take, from how long the latest ones took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.engine.api import Engine
from knowledge.model import DocumentFilter, Job, JobFilter, JobKind, JobStatus, now

MEGABYTE = 1 << 20

FAMILIES = {
    "pdf": "pages", "docx": "pages", "pptx": "pages", "xlsx": "pages", "doc": "pages", "ppt": "pages", "xls": "pages",
    "odt": "pages", "odp": "pages", "ods": "pages", "epub": "pages", "rtf": "pages",
    "jpg": "image", "jpeg": "image", "png": "image", "gif": "image", "bmp": "image", "tif": "image", "tiff": "image",
    "webp": "image",
}  # fmt: skip

PRIOR = {"text": 25.0, "pages": 4.0, "image": 6.0}
"""Seconds a megabyte, before anything has been learnt on this machine."""
PRIOR_BYTES = MEGABYTE // 4
"""How much evidence the prior is worth."""
UNKNOWN = 2.0
"""Seconds that a document takes of which nothing is known."""
SHORTEST = 0.2
"""Queueing, publishing and indexing take this long for the smallest document."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One document that was added: its kind, its size, and the seconds it took."""

    family: str
    size: int
    seconds: float


def family(doc_type: str) -> str:
    return FAMILIES.get(doc_type, "text")


def seconds_for(doc_type: str, size: int, samples: Sequence[Sample], waiting: int = 0) -> float:
    """The time that a document of this size is likely to need, behind so many others."""
    kind = family(doc_type)
    alike = [sample for sample in samples if sample.family == kind]
    spent = PRIOR[kind] * PRIOR_BYTES / MEGABYTE + sum(max(sample.seconds - SHORTEST, 0.0) for sample in alike)
    seen = PRIOR_BYTES + sum(sample.size for sample in alike)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else UNKNOWN
    return round(SHORTEST + size * spent / seen + waiting * usual, 1)


async def samples_of(engine: Engine, count: int = 20) -> list[Sample]:
    """The latest documents with the time that their jobs took."""
    done = await engine.jobs(JobFilter(status=JobStatus.COMPLETED, kind=JobKind.ADD, per_page=count))
    documents = await engine.documents(DocumentFilter(sort="updated_at", per_page=count))
    spent = {
        job.document_id: (job.completed_at - job.started_at).total_seconds()
        for job in done.items
        if job.started_at and job.completed_at
    }
    return [
        Sample(family(document.doc_type), document.size_bytes, spent[document.id])
        for document in documents.items
        if document.id in spent
    ]


async def estimate(engine: Engine, doc_type: str, size: int) -> float:
    """How many seconds a document that was just accepted will take, those before it included."""
    queued = await engine.jobs(JobFilter(status=JobStatus.QUEUED, per_page=1))
    return seconds_for(doc_type, size, await samples_of(engine), max(queued.total - 1, 0))


async def time_left(engine: Engine, job: Job) -> float:
    """The seconds that a job still needs: as its own pace foretells, or as the latest ones took before it has one."""
    spent = (now() - job.started_at).total_seconds() if job.started_at else 0.0
    if job.progress > 0:
        return round(max(spent, 0.1) * (1 - job.progress) / job.progress, 1)
    samples = await samples_of(engine)
    usual = sum(sample.seconds for sample in samples) / len(samples) if samples else UNKNOWN
    return round(max(usual - spent, 0.1), 1)
