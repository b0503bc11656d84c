"""Leases of jobs: renewed by their server, taken over when it is gone, and refused when it comes back."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, update

from knowledge.errors import Cancelled
from knowledge.model import JobKind, JobStatus, NewCollection, Scope, new_uid
from knowledge.store import collections, schema
from knowledge.store.chunks import LAST_CHUNK_ID, ChunkStore, StagedChunk, begin_content, stage_chunks
from knowledge.store.cluster.clock import before_seconds
from knowledge.store.cluster.servers import ServerState, ServerStore
from knowledge.store.collections import CollectionStore
from knowledge.store.database import Database
from knowledge.store.jobs import recovery
from knowledge.store.jobs.document_queue import DocumentQueue
from knowledge.store.jobs.job_leases import JobLeases, StoredProgress
from knowledge.store.jobs.jobs import JobStore
from knowledge.store.jobs.rows import JobClaim, NewJob
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.store.publish import Publisher

J = schema.jobs.c
SCOPE = Scope()


@pytest.fixture
def database(shared_url: str) -> Iterator[Database]:
    opened = PostgresDatabase(shared_url)
    yield opened
    opened.close()


def queue(database: Database) -> int:
    new = NewJob(new_uid(), JobKind.ADD, SCOPE.owner, None, "note.txt", {}, None, 0)
    return DocumentQueue(database).add(new).id


def claim(database: Database, server: str) -> JobClaim:
    found = JobStore(database, server).claim(False)
    assert found is not None
    return found


def expire(database: Database, job_id: int) -> None:
    old = update(schema.jobs).where(J.id == job_id).values(lease_until=before_seconds(1))
    database.write(lambda connection: connection.execute(old))


def find(database: Database, job_id: int) -> tuple[str, int]:
    with database.read() as connection:
        row = connection.execute(schema.jobs.select().where(J.id == job_id)).one()
    return row.status, row.unclean_starts


def report_live(database: Database, server: str) -> None:
    ServerStore(database, server).record_heartbeat(ServerState("", "1", "all", True, True, 0, 0, None))


def test_two_servers_never_claim_the_same_job(database: Database) -> None:
    for _ in range(20):
        queue(database)
    claims = [claim(database, f"server{number % 2}").id for number in range(20)]
    assert len(set(claims)) == 20
    assert JobStore(database, "server0").claim(False) is None


def test_a_claim_skips_a_job_that_another_server_is_claiming(database: Database) -> None:
    first, second = queue(database), queue(database)

    def work(connection: object) -> int:
        connection.execute(schema.jobs.select().where(J.id == first).with_for_update())  # type: ignore[attr-defined]
        return claim(database, "other").id

    assert database.write(work) == second


def test_the_job_of_a_dead_server_is_queued_again_when_its_lease_has_expired_and_counts_an_unclean_start(
    database: Database,
) -> None:
    job_id = queue(database)
    claim(database, "dead")
    assert recovery.requeue_expired(database) is None
    expire(database, job_id)
    found = recovery.requeue_expired(database)
    assert found is not None and found.interrupted == 1
    assert find(database, job_id) == (JobStatus.QUEUED, 1)


def test_an_expired_lease_of_a_live_server_counts_no_unclean_start(database: Database) -> None:
    job_id = queue(database)
    report_live(database, "cut-off")
    claim(database, "cut-off")
    expire(database, job_id)
    recovery.requeue_expired(database)
    assert find(database, job_id) == (JobStatus.QUEUED, 0)


def test_a_job_that_ends_five_servers_fails(database: Database) -> None:
    job_id = queue(database)
    for number in range(5):
        jobs = JobStore(database, f"server{number}")
        found = jobs.claim(False) or jobs.claim_alone()
        assert found is not None
        assert found.runs_alone == (number >= 2)
        expire(database, job_id)
        recovery.requeue_expired(database)
    assert find(database, job_id) == (JobStatus.FAILED, 5)


def test_recovery_at_a_start_touches_only_the_jobs_of_this_server(database: Database) -> None:
    first, second = queue(database), queue(database)
    assert (claim(database, "a").id, claim(database, "b").id) == (first, second)
    assert recovery.recover_jobs(database, "a").interrupted == 1
    assert find(database, first) == (JobStatus.QUEUED, 1)
    assert find(database, second) == (JobStatus.PROCESSING, 0)
    assert recovery.release_unfinished(database, "a") == 0


def test_one_statement_renews_the_leases_of_a_server_and_names_those_that_are_lost(database: Database) -> None:
    first, second = queue(database), queue(database)
    claims = [claim(database, "a"), claim(database, "a")]
    expire(database, first)
    expire(database, second)
    recovery.requeue_expired(database)
    taken = claim(database, "b")
    leases = JobLeases(database, "a")
    assert leases.renew([each.token for each in claims]) == set()
    assert JobLeases(database, "b").renew([taken.token]) == {taken.token}
    assert recovery.requeue_expired(database) is None


def test_a_server_that_lost_its_lease_can_neither_stage_nor_publish(database: Database) -> None:
    job_id = queue(database)
    lost = claim(database, "frozen")
    expire(database, job_id)
    recovery.requeue_expired(database)
    held = claim(database, "other")
    publisher = Publisher(database)
    content = publisher.begin_content(held)
    with pytest.raises(Cancelled):
        publisher.begin_content(lost)
    JobStore(database, "frozen").requeue(lost)
    JobStore(database, "frozen").mark_cancelled(lost)
    assert find(database, job_id) == (JobStatus.PROCESSING, 1)
    with database.read() as connection:
        assert connection.execute(schema.contents.select()).one().id == content


def test_progress_is_read_on_other_servers_and_only_written_by_the_holder(database: Database) -> None:
    job_id = queue(database)
    held = claim(database, "a")
    JobLeases(database, "a").write_progress([StoredProgress(held.token, "Reading", 2, 9, "pages", 0.2)])
    found = JobStore(database, "b").find(job_id, SCOPE)
    assert (found.step, found.done, found.total, found.unit, found.progress) == ("Reading", 2, 9, "pages", 0.2)
    JobLeases(database, "b").write_progress([StoredProgress("0" * 32, "Stolen", 1, 1, "pages", 0.2)])
    assert JobStore(database, "b").find(job_id, SCOPE).step == "Reading"


def test_a_cancel_that_its_server_did_not_live_to_see_is_carried_out_by_the_next(database: Database) -> None:
    job_id = queue(database)
    claim(database, "dead")
    leases = JobLeases(database, "dead")
    assert JobLeases(database, "b").request_cancel(job_id)
    assert leases.list_cancelled() == [job_id]
    expire(database, job_id)
    recovery.requeue_expired(database)
    assert claim(database, "b").cancel_requested


def test_leases_last_by_the_clock_of_the_database(database: Database) -> None:
    queue(database)
    before = time.time()
    claim(database, "a")
    with database.read() as connection:
        until = connection.execute(schema.jobs.select()).one().lease_until / 1e6
    assert before + 55 < until < time.time() + 65


def test_the_chunks_without_vectors_are_divided_among_the_servers_that_embed(database: Database) -> None:
    job_id = queue(database)
    CollectionStore(database).create(NewCollection(name="documents", title="Documents"), SCOPE)
    chunks = [StagedChunk(f"text {number}", None, (), bytes(16), None) for number in range(300)]
    add_finished_document(database, job_id, chunks)
    store = ChunkStore(database)
    everything = [chunk.chunk_id for chunk in store.list_without_vector(1, 0, 1000)]
    shares = [[chunk.chunk_id for chunk in store.list_without_vector(1, 0, 1000, share=(rank, 3))] for rank in range(3)]
    assert all(shares), "every server has something to do"
    assert sorted(itertools.chain(*shares)) == everything and len(everything) == 300
    backwards = store.list_without_vector(1, LAST_CHUNK_ID, 10, backwards=True)
    assert [chunk.chunk_id for chunk in backwards] == everything[::-1][:10]


def add_finished_document(database: Database, job_id: int, chunks: list[StagedChunk]) -> None:
    def work(connection: Connection) -> None:
        content = begin_content(connection, job_id)
        stage_chunks(connection, content, 0, chunks, None)
        values = {
            "uid": new_uid(), "collection_id": 1, "owner_id": 0, "content_id": content, "title": "", "kind": "note",
            "doc_type": "txt", "sha256": "", "size_bytes": 0, "status": "completed", "method": "text", "warnings": [],
            "tags": [], "metadata": {}, "chunk_count": len(chunks), "created_at": 0, "updated_at": 0,
        }  # fmt: skip
        connection.execute(schema.documents.insert().values(**values))

    database.write(work)


def test_a_collection_that_another_server_creates_at_the_same_moment_is_used(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = collections.create_collection

    def create_after_another_server(connection: Connection, new: NewCollection, owner: int) -> int:
        monkeypatch.setattr(collections, "create_collection", create)
        database.write(lambda other: create(other, new, owner))
        return create(connection, new, owner)

    monkeypatch.setattr(collections, "create_collection", create_after_another_server)
    found = database.write(lambda connection: collections.require_target(connection, "plans", SCOPE))
    assert found == CollectionStore(database).find("plans", SCOPE).id
