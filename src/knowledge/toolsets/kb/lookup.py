"""kb_get, kb_status and kb_jobs."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pydantic import Field

from knowledge import wire
from knowledge.errors import Invalid, MissingParameter
from knowledge.model import DocumentFilter, JobFilter, JobStatus, Json, JsonValue
from knowledge.toolsets.base import Call, Rate
from knowledge.toolsets.kb.errors import Number, passage, shown, tools, work


@tools.tool("kb_get", read_only=True, rate=Rate.LIST)
async def get(
    call: Call,
    document_id: Annotated[Number | None, Field(description="The id of a document; its UUID is accepted too")] = None,
    source_path: Annotated[
        str | None, Field(description="Where the document came from", min_length=1, max_length=4096)
    ] = None,
) -> Json:
    """Get one document with its passages by document_id, or the documents that came from a source_path"""
    if document_id is not None and source_path is not None:
        raise Invalid("document_id and source_path exclude each other", hint="Give one of them.")
    if document_id is not None:
        ref = wire.load_ref(document_id, "document_id")
        document = await call.engine.document(ref)
        chunks: list[JsonValue] = [passage(chunk) for chunk in await call.engine.chunks(ref)]
        return {**shown(document), "chunks": chunks}
    if source_path is None:
        raise MissingParameter(
            "document_id or source_path is missing", hint="Give one of them.", parameter="document_id"
        )
    page = await call.engine.documents(DocumentFilter(source_path=source_path))
    body: Json = {"documents": [shown(document) for document in page.items], "total": page.total}
    return body if page.items else {**body, "message": f"No document has the source path '{source_path}'"}


@tools.tool("kb_status", read_only=True, rate=Rate.LIST)
async def status(call: Call) -> Json:
    """Show the engine's version, model, device, counts, queue and health"""
    return cast(Json, wire.dump_status(await call.engine.status()))


@tools.tool("kb_jobs", read_only=True, rate=Rate.LIST)
async def jobs(
    call: Call,
    status: Annotated[
        Literal["queued", "processing", "completed", "partial", "failed", "cancelled"] | None,
        Field(description="Only jobs in this state"),
    ] = None,
) -> Json:
    """List the recent jobs, newest first, with their state and, where they failed, the reason"""
    page = await call.engine.jobs(JobFilter(status=None if status is None else JobStatus(status)))
    return {"jobs": [work(job) for job in page.items], "total": page.total}
