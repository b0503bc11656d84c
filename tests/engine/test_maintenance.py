"""Checks, index rebuilds and backups as jobs, on local and remote engines and on both databases."""

from __future__ import annotations

import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.maintenance.archives import FOLDER_NAME, KEPT_ARCHIVES
from knowledge.errors import AdminRequired, FileNotFound, JobNotFound, NotNow
from knowledge.model import Caller, Job, JobFilter, JobKind, JobStatus
from knowledge.model.events import EventKind
from knowledge.store.jobs import recovery
from tests.support.accounts import ADMIN, register
from tests.support.engines import add_note, search_ids, wait_until_done
from tests.support.originals import get_folder
from tests.support.watching import watching


async def test_a_check_is_a_job_without_warnings_if_all_is_well(engine: Engine) -> None:
    await add_note(engine, "tea in the kitchen")
    job = await engine.maintenance.verify()
    assert (job.kind, job.status) == (JobKind.VERIFY, JobStatus.PROCESSING)
    ended = await wait_until_done(engine, job)
    assert (ended.status, ended.warnings, ended.progress, ended.retryable) == (JobStatus.COMPLETED, (), 1.0, False)
    assert [each.id for each in (await engine.jobs(JobFilter(kind=JobKind.VERIFY))).items] == [job.id]


async def test_the_operator_reads_what_a_check_found_and_an_admin_how_much(engine: Engine, local: LocalEngine) -> None:
    root = await register(engine, ADMIN)
    note = await add_note(engine, "tea in the kitchen", title="The secret title")
    get_folder(local).get_path(note.sha256).unlink()
    ended = await wait_until_done(engine, await engine.maintenance.verify())
    assert len(ended.warnings) == 1 and "The secret title" in ended.warnings[0]
    assert "Add the same file again" in ended.warnings[0]
    judged = await wait_until_done(root, await root.maintenance.verify())
    assert judged.warnings == ("There is 1 finding; the operator sees which with 'knowledge verify'.",)
    with pytest.raises(JobNotFound):
        await engine.job(judged.id)


async def test_a_rebuilt_index_finds_the_same(engine: Engine) -> None:
    note = await add_note(engine, "tea in the kitchen")
    ended = await wait_until_done(engine, await engine.maintenance.reindex())
    assert ended.status is JobStatus.COMPLETED
    assert await search_ids(engine, "tea") == [note.id]


async def test_the_progress_of_a_check_is_told(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    async with watching(engine) as reader:
        await reader.read_kind(EventKind.HELLO)
        job = await engine.maintenance.verify()

        def has_ended(data: object) -> bool:
            return isinstance(data, Job) and data.id == job.id and data.status is JobStatus.COMPLETED

        await reader.read_until(lambda event: has_ended(event.data))


@pytest.mark.only_sqlite
async def test_a_backup_is_written_and_downloaded_and_the_newest_are_kept(engine: Engine, local: LocalEngine) -> None:
    await add_note(engine, "tea in the kitchen")
    jobs = [await wait_until_done(engine, await engine.maintenance.backup()) for _ in range(KEPT_ARCHIVES + 1)]
    assert {job.status for job in jobs} == {JobStatus.COMPLETED}
    folder = Path(local._parts.options.data) / FOLDER_NAME
    assert sorted(path.name for path in folder.iterdir()) == sorted(job.filename for job in jobs[1:])
    archive = await engine.maintenance.archive(jobs[-1].id)
    content = b"".join([piece async for piece in archive.pieces])
    assert len(content) == archive.size
    with tarfile.open(fileobj=BytesIO(content)) as tar:
        assert tar.getnames()[:2] == ["manifest.json", "knowledge.db"]
    with pytest.raises(FileNotFound, match="no archive"):
        await engine.maintenance.archive(jobs[0].uid)
    check = await wait_until_done(engine, await engine.maintenance.verify())
    with pytest.raises(FileNotFound):
        await engine.maintenance.archive(check.id)


async def test_one_job_runs_at_a_time(local: LocalEngine) -> None:
    indexer = local._parts.indexer
    with indexer._write_lock:  # the rebuild waits for it
        first = await local.maintenance.reindex()
        with pytest.raises(NotNow, match=f"another reindex \\(job {first.id}\\)"):
            await local.maintenance.verify()
    await wait_until_done(local, first)
    assert (await wait_until_done(local, await local.maintenance.verify())).status is JobStatus.COMPLETED


async def test_a_job_whose_server_has_ended_fails_and_is_not_repeated(local: LocalEngine) -> None:
    parts = local._parts
    with parts.indexer._write_lock:
        job = await local.maintenance.reindex()
        recovery.release_unfinished(parts.database)  # as the next start does
        parts.workers.wake_all()
        ended = await local.wait(job.id, 30)
    assert ended.status is JobStatus.FAILED and ended.error is not None
    assert ended.error.message == "The server ended while this job was running"
    assert not ended.retryable
    parts.maintenance.close()


async def test_accounts_may_not_and_admins_make_no_backup(engine: Engine) -> None:
    root, ada = await register(engine, ADMIN), await register(engine, "ada")
    job = await wait_until_done(engine, await engine.maintenance.verify())
    for verb in (ada.maintenance.verify, ada.maintenance.reindex, ada.maintenance.backup, root.maintenance.backup):
        with pytest.raises(AdminRequired):
            await verb()
    for account in (ada, root):
        with pytest.raises(AdminRequired):
            await account.maintenance.archive(job.id)
