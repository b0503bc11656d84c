"""Two engines on one database act as one server."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

import pytest
from sqlalchemy import Table, func, select, update

from knowledge.blobs.folder import SHARED_GRACE_SECONDS
from knowledge.engine.local import LocalEngine
from knowledge.errors import Cancelled, InvalidKey, NotNow, Starting
from knowledge.model import JobStatus, NewCorpus, NewNote, Permission, Query, SearchMode
from knowledge.model.jobs import JobPhase
from knowledge.store import schema
from knowledge.store.cluster.clock import before_seconds
from knowledge.store.cluster.servers import LIVE_SECONDS, ServerState, ServerStore
from knowledge.store.jobs.rows import JobClaim
from tests.cluster.conftest import OpenMember
from tests.support.engines import add_file, add_note, make_file, search_ids
from tests.support.originals import get_folder

WAIT_SECONDS = 30.0


async def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition is still false"
        await asyncio.sleep(0.02)


async def wait_until_ready(*engines: LocalEngine) -> None:
    def is_ready(engine: LocalEngine) -> bool:
        parts = engine._parts
        return parts.member is not None and parts.member.is_ready and parts.indexer.model is not None

    await wait_until(lambda: all(map(is_ready, engines)))


async def test_what_is_added_on_one_server_is_found_on_the_other_when_its_job_is_completed(
    open_member: OpenMember,
) -> None:
    first, second = open_member("first"), open_member("second")
    await wait_until_ready(first, second)
    for number in range(5):
        document = await add_note(first, f"The zebrafish{number} swims at dawn.")
        assert (await search_ids(second, f"zebrafish{number}"))[0] == document.id
        answer = await second.search(Query(text=f"zebrafish{number} at dawn", mode=SearchMode.VECTOR))
        assert answer.hits[0].document.id == document.id


async def test_a_job_runs_on_another_server_and_its_progress_and_end_are_seen_here(open_member: OpenMember) -> None:
    here = open_member("here", server_role="no-workers")
    there = open_member("there", server_role="workers-only")
    job = await here.add(make_file("letter.txt", "The harbour master keeps a ledger."))
    ended = await here.wait(job.id, WAIT_SECONDS)
    assert ended.status is JobStatus.COMPLETED
    assert await search_ids(here, "ledger") == [ended.document_id]
    assert not here._parts.workers._threads[0].is_alive()
    assert there._parts.indexer.seq < 0, "a server with workers only has no index"


async def test_documents_are_accepted_and_wait_while_no_server_has_workers(open_member: OpenMember) -> None:
    here = open_member("here", server_role="no-workers")
    job = await here.add(make_file("letter.txt", "The harbour master keeps a ledger."))
    assert (await here.job(job.id)).status is JobStatus.QUEUED
    assert await search_ids(here, "ledger") == []
    open_member("there", server_role="workers-only")
    assert (await here.wait(job.id, WAIT_SECONDS)).status is JobStatus.COMPLETED


async def test_a_job_is_cancelled_by_the_server_that_runs_it_whichever_server_is_asked(
    open_member: OpenMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = open_member("here", server_role="no-workers"), open_member("there")
    began = asyncio.Event()
    loop = asyncio.get_running_loop()

    def run_until_stopped(claim: JobClaim, report: object, stop: Callable[[], bool], *_: object) -> None:
        report("Reading", 3, 7, JobPhase.READ)  # type: ignore[operator]
        loop.call_soon_threadsafe(began.set)
        while not stop():
            time.sleep(0.01)
        raise Cancelled("The job was cancelled")

    monkeypatch.setattr(type(there._parts.ingest), "run", lambda _self, *args: run_until_stopped(*args))
    job = await here.add(NewNote(text="A note that takes long."))
    await asyncio.wait_for(began.wait(), WAIT_SECONDS)
    seen: list[tuple[str, int, int]] = []
    while ("Reading", 3, 7) not in seen:
        found = await here.job(job.id)
        seen.append((found.step, found.done, found.total))
        await asyncio.sleep(0.05)
    assert (await here.cancel(job.id)).status is JobStatus.CANCELLED
    assert there._parts.progress.list_tokens() == {}


async def test_a_revoked_key_is_refused_at_once_on_every_server(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second")
    await first.accounts.register("alice", "correct horse battery")
    issued = await first.accounts.login("alice", "correct horse battery")
    caller = await second.accounts.find_by_key(issued.secret)
    assert caller is not None
    alice_here, alice_there = first.as_caller(caller), second.as_caller(caller)
    await alice_there.status()
    await alice_here.accounts.revoke_key(issued.key.id)
    with pytest.raises(InvalidKey):
        await alice_there.status()
    assert await second.accounts.find_by_key(issued.secret) is None


async def test_a_permission_that_is_revoked_on_one_server_is_gone_on_the_other_at_once(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second")
    await wait_until_ready(first, second)
    await first.accounts.register("alice", "correct horse battery")
    await first.accounts.register("bob", "correct horse battery")
    alice = await second.accounts.find_by_key((await first.accounts.login("alice", "correct horse battery")).secret)
    bob = await second.accounts.find_by_key((await first.accounts.login("bob", "correct horse battery")).secret)
    assert alice is not None and bob is not None
    corpus = await first.as_caller(alice).corpora.create(NewCorpus(name="plans", title="Plans"))
    await add_note(first.as_caller(alice), "The quartz vault opens at nine.", collection="plans")
    await first.as_caller(alice).corpora.grant(corpus.id, "bob", Permission.READ)
    assert await search_ids(second.as_caller(bob), "quartz vault") != []
    await first.as_caller(alice).corpora.revoke_grant(corpus.id, "bob")
    assert await search_ids(second.as_caller(bob), "quartz vault") == []


async def test_the_status_names_every_server_with_its_role_and_lag(open_member: OpenMember) -> None:
    first = open_member("first")
    open_member("second", server_role="workers-only")
    await wait_until_ready(first)
    await add_note(first, "The kettle sings.")

    async def read() -> dict[str, tuple[str, int, bool, bool]]:
        found = (await first.status()).servers
        return {server.address: (server.role, server.lag, server.ready, server.live) for server in found}

    assert await read() == {"first": ("all", 0, True, True), "second": ("workers-only", 0, True, True)}
    assert (await first.status()).health == "healthy"


async def test_health_says_that_a_server_is_missing(open_member: OpenMember) -> None:
    first = open_member("first")
    other = ServerStore(first._parts.database, "other")
    other.record_heartbeat(ServerState("elsewhere:8000", "1", "all", True, True, 0, 0, None))
    make_older(first, "other", LIVE_SECONDS + 1)
    await wait_until_ready(first)
    status = await first.status()
    assert status.health == "degraded"
    assert [issue.partition(" was")[0] for issue in status.issues] == ["Server other at elsewhere:8000"]


async def test_a_server_is_not_ready_before_its_index_has_caught_up(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second", start=False)
    await wait_until_ready(first)
    await first.check_ready()
    with pytest.raises(Starting):
        await second.check_ready()


async def test_a_job_is_completed_when_the_index_of_every_live_server_has_it(open_member: OpenMember) -> None:
    first = open_member("first")
    await wait_until_ready(first)
    other = ServerStore(first._parts.database, "other")
    behind = ServerState(
        "other", "1", "all", has_index=True, is_ready=True, applied_seq=0, checkpoint_seq=0, model_id=None
    )
    other.record_heartbeat(behind)
    job = await first.add(NewNote(text="The kettle sings."))
    await wait_until(lambda: first._parts.indexer.seq >= 2)
    assert (await first.wait(job.id, 0.5)).status is JobStatus.PROCESSING
    other.record_applied(first._parts.changes.newest_seq(), 0)
    assert (await first.wait(job.id, WAIT_SECONDS)).status is JobStatus.COMPLETED


async def test_a_dead_server_holds_up_no_job(open_member: OpenMember) -> None:
    first = open_member("first")
    await wait_until_ready(first)
    other = ServerStore(first._parts.database, "other")
    other.record_heartbeat(ServerState("other", "1", "all", True, True, 0, 0, None))
    make_older(first, "other", LIVE_SECONDS + 1)
    await add_note(first, "The kettle sings.")


async def test_the_change_log_and_replaced_passages_are_kept_for_a_live_server_that_is_behind(
    open_member: OpenMember,
) -> None:
    first = open_member("first")
    await wait_until_ready(first)
    parts = first._parts
    note = await add_note(first, "The kettle sings.")
    parts.indexer._flush_and_trim_log()
    behind = ServerStore(parts.database, "behind")
    seq = parts.changes.newest_seq()
    behind.record_heartbeat(ServerState("behind", "1", "all", True, False, seq, seq, None))
    await first.update_note(note.id, "The kettle is silent.")
    parts.indexer._flush_and_trim_log()
    assert count_rows(first, schema.contents) == 2
    assert parts.changes.is_complete_after(seq)
    make_older(first, "behind", LIVE_SECONDS + 1)
    await add_note(first, "One more.")
    parts.indexer._flush_and_trim_log()
    assert count_rows(first, schema.contents) == 2, "one for each document"
    assert not parts.changes.is_complete_after(seq)


async def test_a_server_that_was_away_longer_than_the_log_rebuilds_its_index(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second")
    await wait_until_ready(first, second)
    await add_note(first, "The kettle sings.")
    with second._parts.indexer._write_lock:  # the second server is frozen
        make_older(first, second._parts.server_id, LIVE_SECONDS + 1)
        await second_stops_its_heartbeat(second)
        make_older(first, second._parts.server_id, LIVE_SECONDS + 1)
        missed = await add_note(first, "The walrus waits.")
        first._parts.indexer._flush_and_trim_log()
        await add_note(first, "The otter waits.")
        first._parts.indexer._flush_and_trim_log()
        assert not second._parts.changes.is_complete_after(second._parts.indexer.seq)
    second._parts.indexer.wake()
    await wait_until(lambda: second._parts.indexer.seq >= first._parts.indexer.seq)
    assert (await search_ids(second, "walrus"))[0] == missed.id


async def second_stops_its_heartbeat(engine: LocalEngine) -> None:
    member = engine._parts.member
    assert member is not None
    await asyncio.to_thread(member.close)


def make_older(engine: LocalEngine, server_id: str, seconds: float) -> None:
    old = update(schema.servers).where(schema.servers.c.id == server_id).values(seen_at=before_seconds(seconds))
    engine._parts.database.write(lambda connection: connection.execute(old))


def count_rows(engine: LocalEngine, table: Table) -> int:
    with engine._parts.database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


# -- what one server does for all ---------------------------------------------------------------


async def test_a_new_model_is_embedded_by_all_servers_and_used_when_every_index_has_it(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second", server_role="no-workers")
    worker = open_member("worker", server_role="workers-only")
    await wait_until_ready(first, second)
    notes = [await add_note(first, f"The {word} waits at the harbour.") for word in ("walrus", "otter", "heron")]
    before = second._parts.indexer.model
    await second.reindex("another")

    def uses_new_model(engine: LocalEngine) -> bool:
        model = engine._parts.indexer.model
        return model is not None and model != before and engine._parts.models.next is None

    await wait_until(lambda: uses_new_model(first) and uses_new_model(second))
    await wait_until(
        lambda: worker._parts.models.next is None and worker._parts.models.serving.choice.spec == "another"
    )
    for engine in (first, second):
        answer = await engine.search(Query(text="The otter waits at the harbour.", mode=SearchMode.VECTOR))
        assert answer.hits[0].document.id == notes[1].id
        assert await engine.verify() == []
    later = await add_note(second, "The badger waits at the harbour.")
    answer = await first.search(Query(text="The badger waits at the harbour.", mode=SearchMode.VECTOR))
    assert answer.hits[0].document.id == later.id


async def test_the_old_model_answers_until_the_slowest_index_has_the_new_one(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second")
    await wait_until_ready(first, second)
    await add_note(first, "The walrus waits.")
    before = first._parts.indexer.model
    with second._parts.indexer._write_lock:  # the second server cannot build its index yet
        await first.reindex("another")
        await wait_until(lambda: first._parts.indexer.built_model is not None)
        assert first._parts.indexer.model == before == second._parts.indexer.model
        assert (await first.search(Query(text="walrus", mode=SearchMode.VECTOR))).hits
    await wait_until(lambda: first._parts.indexer.model == second._parts.indexer.model != before)


async def test_vectors_of_the_old_model_are_deleted_by_the_sweep(open_member: OpenMember) -> None:
    first = open_member("first")
    await wait_until_ready(first)
    await add_note(first, "The walrus waits.")
    before = first._parts.indexer.model
    await first.reindex("another")
    await wait_until(lambda: first._parts.indexer.model != before)
    assert count_rows(first, schema.vectors) == 2
    await wait_until(lambda: first._parts.servers.list_all()[0].model_id == first._parts.indexer.model.id)  # type: ignore[union-attr]
    first._parts._sweep_once()
    assert count_rows(first, schema.vectors) == 1


async def test_only_one_server_sweeps_and_one_that_lost_its_lease_is_refused(open_member: OpenMember) -> None:
    first, second = open_member("first", start=False), open_member("second", start=False)
    mine, theirs = first._parts.leases, second._parts.leases
    token = mine.acquire("task", 60)
    assert token is not None
    assert theirs.acquire("task", 60) is None
    lapse = update(schema.leases).where(schema.leases.c.name == "task").values(expires_at=before_seconds(1))
    first._parts.database.write(lambda connection: connection.execute(lapse))
    taken = theirs.acquire("task", 60)  # the first server was stopped for longer than its lease
    assert taken is not None and taken > token
    model = first._parts.stored_models.register("fingerprint", "name", 3)
    with pytest.raises(NotNow, match="Another server has taken the lease"):
        first._parts.stored_models.activate(model, "spec", ("task", token))
    assert first._parts.stored_models.get_active() is None


async def test_an_original_is_deleted_with_its_last_document_on_whichever_server(open_member: OpenMember) -> None:
    first, second = open_member("first"), open_member("second")
    await wait_until_ready(first, second)
    document = await add_file(first, "letter.txt", "The harbour master keeps a ledger.")
    original = get_folder(first).get_path(document.sha256)
    removal = await second.remove(document.id)
    assert removal.bytes_freed == document.size_bytes
    assert not original.exists()


async def test_an_original_that_one_server_deletes_while_another_adds_the_same_bytes_is_put_back(
    open_member: OpenMember,
) -> None:
    first, second = open_member("first", start=False), open_member("second", start=False)
    files, documents = get_folder(first), first._parts.documents
    incoming = files.open_incoming(1000)
    incoming.write(b"The harbour master keeps a ledger.")
    with files.adopt_incoming(incoming, documents.is_file_referenced) as received:
        # Its row is not committed yet, so that the other server cannot know that the file is needed.
        assert second._parts.files.discard(received.sha256, second._parts.documents.is_file_referenced) > 0
        assert not files.get_path(received.sha256).exists()
    assert files.get_path(received.sha256).read_bytes() == b"The harbour master keeps a ledger."
    assert list(files.root.joinpath("incoming").iterdir()) == []


async def test_the_sweep_deletes_what_a_killed_server_left_and_nothing_that_another_one_is_adding(
    open_member: OpenMember,
) -> None:
    first, second = open_member("first", start=False), open_member("second", start=False)
    left, fresh = "ab" * 32, "cd" * 32
    for name, age in ((left, SHARED_GRACE_SECONDS + 1), (fresh, 0)):
        path = get_folder(first).get_path(name)
        path.parent.mkdir()
        path.write_text("")
        os.utime(path, (time.time() - age, time.time() - age))
    incoming = first._parts.files.open_incoming(1000)
    second._parts.sweep(older_than=0.0)
    assert not get_folder(first).get_path(left).exists()
    assert get_folder(first).get_path(fresh).exists()
    assert incoming.path.exists()
    incoming.discard()
