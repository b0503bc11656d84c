"""A zip archive is unpacked into one document per member."""

from __future__ import annotations

import io
import zipfile

from knowledge.engine.api import Engine
from knowledge.model import Content, DocumentFilter, JobFilter, JobKind, JobStatus, NewFile
from tests.support.engines import WAIT_SECONDS, search_ids, wait_until_done


def make_zip(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), text)
    return buffer.getvalue()


async def add_zip(engine: Engine, data: bytes) -> None:
    job = await engine.add(
        NewFile(filename="papers.zip", content=Content.from_bytes(data), tags=("box",), source_path="/p.zip")
    )
    assert job.kind is JobKind.UNPACK
    ended = await wait_until_done(engine, job)
    assert ended.document_id is None and ended.warnings
    while active := [job for job in (await engine.jobs(JobFilter())).items if not job.status.has_ended]:
        await engine.wait(active[0].id, WAIT_SECONDS)


async def test_each_member_of_an_archive_is_a_document(engine: Engine) -> None:
    await add_zip(engine, make_zip(a_txt="apples are red", folder__b_md="# Pears\n\nPears are green", tool_exe="MZ"))
    documents = (await engine.documents(DocumentFilter(sort="title", descending=False))).items
    assert [(document.filename, document.source_path, document.tags) for document in documents] == [
        ("b.md", "/p.zip!/folder/b.md", ("box",)),
        ("a.txt", "/p.zip!/a.txt", ("box",)),
    ]
    assert (await search_ids(engine, "green pears"))[0] == documents[0].id
    assert await engine.verify() == []


async def test_an_archive_added_again_adds_new_members_and_replaces_changed_ones(engine: Engine) -> None:
    await add_zip(engine, make_zip(a_txt="apples are red", b_txt="pears are green"))
    await add_zip(engine, make_zip(a_txt="apples are red", b_txt="pears are yellow", c_txt="plums are blue"))
    assert (await engine.documents(DocumentFilter())).total == 3
    assert await search_ids(engine, '"green"') == []
    assert await engine.verify() == []


async def test_an_archive_without_a_document_fails_with_the_reason(engine: Engine) -> None:
    job = await engine.add(NewFile(filename="x.zip", content=Content.from_bytes(make_zip(tool_exe="MZ"))))
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.status is JobStatus.FAILED and ended.error is not None and ended.error.code == "no_text"
    assert await engine.verify() == []
