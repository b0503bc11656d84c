"""What every way in has in common: accepted as a job, or there already."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.errors import Duplicate
from knowledge.model import Json, NewDocument


async def add(engine: Engine, new: NewDocument) -> Json:
    """The job of a new document; the same content in the same collection is a success that makes nothing new."""
    stands: Json = {"collection": str(new.collection), "tags": [*new.tags]}
    try:
        job = await engine.add(new)
    except Duplicate as found:
        return {
            "duplicate": True, "document_id": found.details.get("document_id"), "title": found.details.get("title"),
            "collection": str(new.collection), "message": f"{found}; nothing was added",
        }  # fmt: skip
    return {"job_id": job.id, "job_uid": str(job.uid), "status": job.status, "filename": job.filename, **stands}
