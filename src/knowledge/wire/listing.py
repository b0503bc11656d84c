"""What a list is narrowed by: the query strings of the lists, and the same from their filters."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from knowledge.model import DocumentFilter, JobFilter, JobKind, JobStatus
from knowledge.wire.values import dump_collection_ref, load_collection_ref, one_collection, part_tags

FURTHEST = 10**9
"""Pages beyond this are nobody's; it keeps page times per_page far inside 64 bit."""


class Listing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    page: int = Field(1, ge=1, le=FURTHEST)
    per_page: int = Field(50, ge=1, le=200)


class DocumentListing(Listing):
    type: str | None = Field(None, description="pdf, md, note and so on.")
    tag: str | None = Field(None, description="`collection:NAME` narrows to a collection.")
    collection: str | None = Field(None, description="By name, number or UUID.")
    source_path: str | None = None
    sort: Literal["created_at", "updated_at", "title", "filename", "size_bytes"] = "created_at"
    order: Literal["asc", "desc"] = "desc"
    offset: int | None = Field(None, ge=0, le=FURTHEST, description="Instead of a page.")

    def to_filter(self) -> DocumentFilter:
        free, tagged = part_tags([] if self.tag is None else [self.tag])
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentFilter(
            collection=one_collection(named, tagged),
            tag=free[0] if free else None,
            doc_type=self.type,
            source_path=self.source_path,
            sort=self.sort,
            descending=self.order == "desc",
            page=self.page,
            per_page=self.per_page,
            offset=self.offset,
        )


class JobListing(Listing):
    status: JobStatus | None = None
    kind: JobKind | None = None

    def to_filter(self) -> JobFilter:
        return JobFilter(status=self.status, kind=self.kind, page=self.page, per_page=self.per_page)


class ChunkRange(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    chunk_offset: int = Field(0, ge=0, le=FURTHEST, description="The first passage to show.")
    chunk_limit: int | None = Field(None, ge=0, le=FURTHEST, description="How many; all when it is not given.")


def _unusual(given: dict[str, str | None], usual: dict[str, str]) -> dict[str, str]:
    """What says more than a plain list would."""
    return {name: value for name, value in given.items() if value is not None and usual.get(name) != value}


USUAL = {"page": "1", "per_page": "50", "sort": "created_at", "order": "desc"}


def dump_document_filter(wanted: DocumentFilter) -> dict[str, str]:
    collection = None if wanted.collection is None else str(dump_collection_ref(wanted.collection))
    fields = {
        "type": wanted.doc_type,
        "tag": wanted.tag,
        "collection": collection,
        "source_path": wanted.source_path,
        "sort": wanted.sort,
        "order": "desc" if wanted.descending else "asc",
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
        "offset": None if wanted.offset is None else str(wanted.offset),
    }
    return _unusual(fields, USUAL)


def dump_job_filter(wanted: JobFilter) -> dict[str, str]:
    fields = {
        "status": wanted.status,
        "kind": wanted.kind,
        "page": str(wanted.page),
        "per_page": str(wanted.per_page),
    }
    return _unusual(fields, USUAL)
