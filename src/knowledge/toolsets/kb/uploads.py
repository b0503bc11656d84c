"""kb_upload_start, kb_upload_chunk and kb_upload_finish: a file from another machine, part by part."""

from __future__ import annotations

from pathlib import PureWindowsPath
from typing import Annotated

import anyio
from pydantic import Field

from knowledge.errors import DeadlineExceeded, InvalidParameter, Unavailable
from knowledge.extract.formats import check_suffix
from knowledge.model import Content, Json, NewFile
from knowledge.toolsets.base import Call, Rate
from knowledge.toolsets.kb.accept import add
from knowledge.toolsets.kb.errors import Collection, SourcePath, Tags, Title, shelf_or_default, tools
from knowledge.toolsets.uploads import MOST_PARTS, Owner, Promise, Upload, Uploads

UploadId = Annotated[str, Field(description="What kb_upload_start returned", min_length=1, max_length=200)]


@tools.tool("kb_upload_start", rate=Rate.UPLOAD)
async def start(
    call: Call,
    filename: Annotated[str, Field(description="The name of the file, with its suffix", min_length=1, max_length=1000)],
    total_size: Annotated[int, Field(description="The size of the whole file in bytes", ge=1, le=2**53)],
    tags: Tags | None = None,
    collection: Annotated[Collection, Field(description="Where to keep it; documents when it is not given")] = None,
    title: Title = None,
    source_path: SourcePath = None,
) -> Json:
    """Begin to upload a file in parts; returns the upload_id for kb_upload_chunk and kb_upload_finish"""
    shelf_name, free = shelf_or_default(collection, tags or ())
    promise = Promise(
        filename=plain_name(filename), total_size=total_size, collection=shelf_name, tags=free, title=title,
        source_path=source_path,
    )  # fmt: skip
    uploads = call.service(Uploads)
    upload = await uploads.start(owner(call), promise)
    return {"upload_id": str(upload.uid), "expires_in_seconds": uploads.limits.ttl_s}


@tools.tool("kb_upload_chunk", idempotent=True)  # a file in fifty parts is one upload, counted at its start
async def chunk(
    call: Call,
    upload_id: UploadId,
    data: Annotated[str, Field(description="The bytes of this part, as base64; at most 2 MB of them", min_length=1)],
    chunk_index: Annotated[int, Field(description="The place of this part, from 0", ge=0, lt=MOST_PARTS)],
) -> Json:
    """Send one part of an upload; parts may come in any order, and the same part again replaces the first"""
    uploads = call.service(Uploads)
    upload = uploads.find(owner(call), upload_id)
    await uploads.put(upload, chunk_index, data)
    return {
        "upload_id": str(upload.uid), "chunk_index": chunk_index, "received_bytes": upload.received,
        "total_size": upload.promise.total_size,
    }  # fmt: skip


@tools.tool("kb_upload_finish", idempotent=True)
async def finish(call: Call, upload_id: UploadId) -> Json:
    """Put the parts of an upload together and hand the file on; returns the id of the job that makes it searchable"""
    uploads = call.service(Uploads)
    upload = uploads.find(owner(call), upload_id)
    async with uploads.whole(upload) as content:
        if content is not None:
            with anyio.CancelScope(shield=True):  # a client that leaves meanwhile can ask again and gets the same job
                await uploads.settle(upload, await hand_on(call, uploads, upload, content))
    return upload.answer or {}


async def hand_on(call: Call, uploads: Uploads, upload: Upload, content: Content) -> Json:
    promise = upload.promise
    file = NewFile(
        filename=promise.filename, content=content, title=promise.title, collection=promise.collection,
        tags=promise.tags, source_path=promise.source_path, job_uid=upload.job_uid,
    )  # fmt: skip
    try:
        return await add(call.engine, file)
    except (Unavailable, DeadlineExceeded) as error:
        uploads.keep(upload)
        error.hint = f"The parts are kept for {uploads.limits.ttl_s:g} s: call kb_upload_finish again. {error.hint}"
        raise


def owner(call: Call) -> Owner:
    return call.caller.owner, call.caller.key


def plain_name(filename: str) -> str:
    """The last part of a name, whichever slashes it uses; what cannot be read is refused before it is sent."""
    name = PureWindowsPath(filename).name.strip()
    if not name or name in (".", ".."):
        raise InvalidParameter(f"'{filename[:100]}' is no file name", parameter="filename")
    check_suffix(name)
    return name
