"""Helpers that add documents and wait for jobs."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.model import Content, Document, Job, JobStatus, NewFile, NewNote, Query, SearchFilter

WAIT_SECONDS = 30.0


async def wait_until_done(engine: Engine, job: Job) -> Job:
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.status in (JobStatus.COMPLETED, JobStatus.PARTIAL), ended.error
    return ended


async def add_note(engine: Engine, text: str, **more: object) -> Document:
    job = await wait_until_done(engine, await engine.add(NewNote(text=text, **more)))  # type: ignore[arg-type]
    assert job.document_id is not None
    return await engine.document(job.document_id)


def make_file(name: str, text: str, **more: object) -> NewFile:
    return NewFile(filename=name, content=Content.from_bytes(text.encode()), **more)  # type: ignore[arg-type]


async def add_file(engine: Engine, name: str, text: str, **more: object) -> Document:
    job = await wait_until_done(engine, await engine.add(make_file(name, text, **more)))
    assert job.document_id is not None
    return await engine.document(job.document_id)


async def search_ids(engine: Engine, text: str, **filters: object) -> list[int]:
    answer = await engine.search(Query(text=text, filter=SearchFilter(**filters)))  # type: ignore[arg-type]
    return [hit.document.id for hit in answer.hits]
