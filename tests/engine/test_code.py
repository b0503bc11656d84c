"""Source code is found by its definitions, with path and lines."""

from __future__ import annotations

import asyncio

from sqlalchemy import update

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.model import Chunk, Content, Document, JobFilter, JobKind, JobStatus, NewFile, Query
from knowledge.store import schema
from tests.support.engines import wait_until_done

FILLER = "".join(f"    step_{number} = measure(kettle, {number})\n" for number in range(7))
SOURCE = f'''"""Kettles and cups."""

import os


class Kettle:
    """Boils water."""

    def boil(self, degrees):
        """Boil the water until it whistles."""
    {FILLER.replace(chr(10), chr(10) + "    ").rstrip()}
        return degrees

    def pour(self, cup):
        """Pour into a cup."""
    {FILLER.replace(chr(10), chr(10) + "    ").rstrip()}
        return cup


def rinse(kettle):
    """Rinse with vinegar."""
{FILLER}    return kettle
'''


async def add_code(engine: Engine, name: str = "kettle.py", text: str = SOURCE) -> Document:
    new = NewFile(filename=name, content=Content.from_bytes(text.encode()), source_path=f"src/tea/{name}")
    job = await wait_until_done(engine, await engine.add(new))
    assert job.document_id is not None, job
    return await engine.document(job.document_id)


def find_line(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.split("\n"), 1) if text in line)


async def test_a_hit_in_source_code_names_the_function_and_its_lines(engine: Engine) -> None:
    await add_code(engine)
    hit = (await engine.search(Query(text="rinse with vinegar"))).hits[0]
    assert hit.chunk.section == ("rinse",)
    assert hit.chunk.lines is not None and hit.lines is not None
    assert hit.chunk.lines[0] == find_line("def rinse")
    assert hit.lines[0] <= hit.chunk.lines[0] and hit.lines[1] >= hit.chunk.lines[1]
    assert hit.location == f"src/tea/kettle.py:{hit.lines[0]}-{hit.lines[1]}"


async def test_chunks_hold_every_line_below_the_names_around_them(engine: Engine) -> None:
    document = await add_code(engine)
    chunks = await engine.chunks(document.id)
    assert [" > ".join(chunk.section) for chunk in chunks] == ["Kettle > boil", "Kettle > pour", "rinse"]
    lines = SOURCE.split("\n")
    for chunk in chunks:
        assert chunk.lines is not None
        assert chunk.text.split("\n")[1:-1] == lines[chunk.lines[0] - 1 : chunk.lines[1]]
    covered = {line for chunk in chunks if chunk.lines for line in range(chunk.lines[0], chunk.lines[1] + 1)}
    assert all(number in covered for number, line in enumerate(lines, 1) if line.strip())


async def test_other_documents_have_no_lines(engine: Engine) -> None:
    new = NewFile(filename="tea.md", content=Content.from_bytes(b"# Tea\n\nThe kettle whistles."))
    await wait_until_done(engine, await engine.add(new))
    [hit] = (await engine.search(Query(text="kettle"))).hits
    assert (hit.lines, hit.chunk.lines, hit.location) == (None, None, None)


# -- documents of older versions ----------------------------------------------------------------


async def add_old_code(engine: Engine, local: LocalEngine) -> tuple[Document, list[Chunk]]:
    """Add a file and delete its lines and names, as if an older version had read it."""
    document = await add_code(engine)
    old = update(schema.chunks).values(first_line=None, last_line=None, section=[])
    local._parts.database.write(lambda connection: connection.execute(old))
    return document, await engine.chunks(document.id)


async def wait_for_rereads(engine: Engine) -> None:
    async with asyncio.timeout(60):
        while (await engine.reread(start=False)).waiting:
            await asyncio.sleep(0.01)


async def test_code_of_an_older_version_stays_until_it_is_read_again(engine: Engine, local: LocalEngine) -> None:
    document, old = await add_old_code(engine, local)
    hit = (await engine.search(Query(text="rinse with vinegar"))).hits[0]
    assert hit.lines is None and hit.document.id == document.id
    assert [chunk.lines for chunk in old] == [None] * 3
    assert (await engine.reread()).queued == 1
    await wait_for_rereads(engine)
    chunks = await engine.chunks(document.id)
    assert [chunk.section for chunk in chunks][-1] == ("rinse",) and all(chunk.lines for chunk in chunks)
    again = await engine.document(document.id)
    assert (again.uid, again.title, again.source_path, again.created_at, again.tags) == (
        document.uid, document.title, document.source_path, document.created_at, document.tags,
    )  # fmt: skip
    hit = (await engine.search(Query(text="rinse with vinegar"))).hits[0]
    assert hit.location is not None and hit.location.startswith("src/tea/kettle.py:")
    assert (await engine.reread()).queued == 0
    [job] = (await engine.jobs(JobFilter(kind=JobKind.REREAD))).items
    assert job.status is JobStatus.COMPLETED


async def test_a_job_whose_document_was_removed_ends(engine: Engine, local: LocalEngine) -> None:
    document, _ = await add_old_code(engine, local)
    local._parts.workers.close()  # jobs stay queued
    assert (await engine.reread()).queued == 1
    await engine.remove(document.id)
    [job] = (await engine.jobs(JobFilter(kind=JobKind.REREAD))).items
    assert job.status in (JobStatus.QUEUED, JobStatus.CANCELLED)
