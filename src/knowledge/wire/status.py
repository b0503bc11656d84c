"""What the engine says about itself: its status, what a removal took, what `verify` found."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from knowledge.model import Finding, ModelStatus, NextModel, Removed, Status
from knowledge.wire.search import Body
from knowledge.wire.shapes import FindingShape, FindingsShape, ModelStatusShape, RemovedShape, StatusShape
from knowledge.wire.values import dump_moment_or_none, load_moment_or_none


class ReindexBody(Body):
    model: str | None = Field(
        None, min_length=1, description="Another model to move to: default, dir:PATH, hf:NAME or openai:URL#MODEL."
    )


def dump_status(status: Status) -> StatusShape:
    return {
        "version": status.version,
        "uptime_seconds": status.uptime_seconds,
        "data_path": status.data_path,
        "model": _dump_model(status.model),
        "documents": status.documents,
        "chunks": status.chunks,
        "collections": status.collections,
        "queue": {"queued": status.queued, "processing": status.processing, "failed": status.failed},
        "storage": {
            "database_bytes": status.database_bytes,
            "files_bytes": status.files_bytes,
            "index_bytes": status.index_bytes,
        },
        "health": {
            "status": status.health,
            "issues": list(status.issues),
            "storage_ok": status.storage_ok,
            "index_ok": status.index_ok,
        },
        "chunk_size": status.chunk_size,
        "last_change": dump_moment_or_none(status.last_change),
    }


def load_status(data: StatusShape) -> Status:
    return Status(
        version=data["version"],
        uptime_seconds=data["uptime_seconds"],
        data_path=data["data_path"],
        model=_load_model(data["model"]),
        documents=data["documents"],
        chunks=data["chunks"],
        collections=data["collections"],
        **data["queue"],
        **data["storage"],
        issues=tuple(data["health"]["issues"]),
        last_change=load_moment_or_none(data["last_change"]),
        storage_ok=data["health"]["storage_ok"],
        index_ok=data["health"]["index_ok"],
        chunk_size=data["chunk_size"],
    )


def _dump_model(model: ModelStatus) -> ModelStatusShape:
    coming = model.next
    return {
        "name": model.name,
        "dimension": model.dimension,
        "device": model.device,
        "loaded": model.loaded,
        "error": model.error,
        "next": {"name": coming.name, "left": coming.left, "error": coming.error} if coming else None,
    }


def _load_model(data: ModelStatusShape) -> ModelStatus:
    coming = data["next"]
    return ModelStatus(
        name=data["name"],
        dimension=data["dimension"],
        device=data["device"],
        loaded=data["loaded"],
        error=data["error"],
        next=NextModel(**coming) if coming else None,
    )


def dump_removed(removed: Removed) -> RemovedShape:
    return {"documents": removed.documents, "chunks": removed.chunks, "bytes_freed": removed.bytes_freed}


def load_removed(data: RemovedShape) -> Removed:
    return Removed(**data)


def dump_findings(findings: Sequence[Finding]) -> FindingsShape:
    listed: list[FindingShape] = [
        {
            "part": finding.part,
            "message": finding.message,
            "hint": finding.hint,
            "document_id": finding.document_id,
        }
        for finding in findings
    ]
    return {"clean": not findings, "findings": listed}


def load_findings(data: FindingsShape) -> list[Finding]:
    return [Finding(**finding) for finding in data["findings"]]
