"""Changes are committed in the order of their numbers, so that a follower never passes over one."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, event, insert

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, CollectionEdit, DocumentEdit, NewCollection, Scope, new_uid
from knowledge.model.events import ChangeKind, CollectionChange
from knowledge.store import collections, schema
from knowledge.store.changes import ChangeLog, record_change, record_changes
from knowledge.store.events import EventLog, record_collection, record_document
from knowledge.store.postgres import locks
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import add_file, add_note
from tests.support.races import run_race

WRITERS, CHANGES, EVENTS = 8, 10_000, 4_000
LIMIT_SECONDS = 300.0


def test_a_follower_misses_none_of_ten_thousand_changes_of_eight_writers(
    database: PostgresDatabase, other: PostgresDatabase
) -> None:
    log, ended = ChangeLog(other), threading.Event()
    written: list[int] = []
    followed: list[int] = []

    def follow() -> None:
        seq = 0
        while True:
            last_look = ended.is_set()
            while (batch := log.read_after(seq, 500)) is not None:
                assert batch.seq > seq
                seq = batch.seq
                followed.extend(batch.documents)
            if last_look:
                return

    def write(number: int) -> None:
        numbers = random.Random(number)
        remaining = CHANGES // WRITERS
        while remaining:
            size = min(remaining, numbers.choice((1, 1, 2, 5)))
            last = number * CHANGES + remaining
            documents = range(last - size, last)
            (database if numbers.random() < 0.5 else other).write(
                lambda connection, documents=documents: record_changes(connection, documents)  # type: ignore[misc]
            )
            written.extend(documents)
            remaining -= size

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        follower = pool.submit(follow)
        writers = [pool.submit(write, number) for number in range(WRITERS)]
        for writer in writers:
            writer.result(LIMIT_SECONDS)
        ended.set()
        follower.result(LIMIT_SECONDS)
    assert len(set(written)) == CHANGES
    assert set(followed) == set(written), f"{len(set(written) - set(followed))} changes were never seen"


def test_a_reader_misses_none_of_the_events_of_eight_writers(
    database: PostgresDatabase, other: PostgresDatabase
) -> None:
    log, ended = EventLog(other), threading.Event()
    written: list[int] = []
    read: list[int] = []

    def follow() -> None:
        position = 0
        while True:
            last_look = ended.is_set()
            while found := log.read_after(position, 500):
                assert [event.id for event in found] == sorted({event.id for event in found}) and found[0].id > position
                position = found[-1].id
                read.extend(event.data.id for event in found)
            if last_look:
                return

    def record(connection: Connection, subject: int, kind: int) -> None:
        if kind == 0:  # before other statements of the transaction, as when a document is accepted
            record_collection(connection, ChangeKind.ADDED, subject, new_uid(), 0)
            locks.lock_collections(connection, subject)
            connection.execute(insert(schema.settings).values(name=f"event {subject}", value=""))
        else:
            change = ChangeKind.ADDED if kind == 1 else ChangeKind.REMOVED
            record_document(connection, change, subject, new_uid(), owner=0, collection_id=1)

    def write(number: int) -> None:
        numbers = random.Random(number)
        for subject in range(number * EVENTS + 1, number * EVENTS + 1 + EVENTS // WRITERS):
            kind = numbers.randrange(3)
            (database if numbers.random() < 0.5 else other).write(
                lambda connection, subject=subject, kind=kind: record(connection, subject, kind)  # type: ignore[misc]
            )
            written.append(subject)

    with ThreadPoolExecutor(WRITERS + 1) as pool:
        follower = pool.submit(follow)
        writers = [pool.submit(write, number) for number in range(WRITERS)]
        for writer in writers:
            writer.result(LIMIT_SECONDS)
        ended.set()
        follower.result(LIMIT_SECONDS)
    assert len(written) == EVENTS
    assert read.count(read[0]) == 1 and sorted(read) == sorted(written), f"{len(written) - len(read)} were never read"


def test_the_event_of_a_new_collection_takes_the_lock_of_the_log_at_the_end_of_its_transaction(
    database: PostgresDatabase, other: PostgresDatabase
) -> None:
    scope = Scope(0)

    def accept(connection: Connection) -> None:
        collections.require_target(connection, "brewing", scope)
        with ThreadPoolExecutor(1) as pool:  # another server records a change meanwhile
            pool.submit(other.write, lambda later: record_change(later, 1)).result(LIMIT_SECONDS)
        locks.lock_owner(connection, 0)

    database.write(accept)
    [event] = EventLog(database).read_after(0, 10)
    assert event.data == CollectionChange(event.data.id, event.data.uid, "brewing", ChangeKind.ADDED)


def test_the_event_of_a_failed_transaction_is_not_recorded_by_the_next(database: PostgresDatabase) -> None:
    def fail(connection: Connection) -> None:
        record_collection(connection, ChangeKind.ADDED, 7, new_uid(), 0)
        raise ValueError

    with pytest.raises(ValueError):
        database.write(fail)
    for _ in range(3):
        database.write(lambda connection: record_change(connection, 1))
    assert EventLog(database).read_after(0, 10) == []


def test_a_plain_sequence_loses_changes(database: PostgresDatabase) -> None:
    """The reason for the lock: numbers are assigned before the commit, and commits may come in another order."""

    def insert_plainly(connection: Connection, document_id: int) -> None:
        connection.execute(insert(schema.changes).values(document_id=document_id, at=0))

    log = ChangeLog(database)

    def write_first(connection: Connection) -> None:
        insert_plainly(connection, 1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(database.write, lambda later: insert_plainly(later, 2)).result(LIMIT_SECONDS)
        batch = log.read_after(0, 10)
        assert batch is not None and batch.documents == (2,)
        seen.append(batch.seq)

    seen: list[int] = []
    database.write(write_first)
    assert log.read_after(seen[0], 10) is None, "document 1 is committed and never seen"


def test_a_change_waits_until_the_change_before_it_is_committed(database_url: str) -> None:
    race = run_race(
        database_url,
        lambda where: where.write(lambda connection: record_change(connection, 1)),
        lambda where: where.write(lambda connection: record_change(connection, 2)),
    )
    assert race.waited and race.first < race.second


def test_the_log_lock_is_the_last_lock_of_a_transaction(database: PostgresDatabase) -> None:
    def take_another(connection: Connection) -> None:
        record_change(connection, 1)
        locks.lock_collections(connection, 1)

    with pytest.raises(RuntimeError, match="last one"):
        database.write(take_another)


def test_a_rolled_back_number_does_not_stop_a_follower(database: PostgresDatabase) -> None:
    log = ChangeLog(database)
    database.write(lambda connection: record_change(connection, 1))

    def fail(connection: Connection) -> None:
        record_change(connection, 2)
        raise ValueError

    with pytest.raises(ValueError):
        database.write(fail)
    newest = database.write(lambda connection: record_change(connection, 3))
    assert log.newest_seq() == newest
    batch = log.read_after(0, 10)
    assert batch is not None and batch.documents == (1, 3)


def test_a_trimmed_log_still_reaches_back_to_the_checkpoint_when_numbers_are_missing(
    database: PostgresDatabase,
) -> None:
    log = ChangeLog(database)
    first = database.write(lambda connection: record_change(connection, 1))
    with pytest.raises(ZeroDivisionError):
        database.write(lambda connection: record_change(connection, 2) // 0)
    database.write(lambda connection: record_change(connection, 3))
    log.trim(first)
    assert log.is_complete_after(first)


NEEDS_THE_NUMBER = ("INSERT INTO changes", "INSERT INTO events", "change_seq=", "retired_seq=")
"""What may follow a change: further changes, and the rows that keep its number; events are ordered like changes."""


@contextmanager
def record_statements_after_changes(database: PostgresDatabase) -> Iterator[list[str]]:
    """Collect every statement that runs between a change and the end of its transaction."""
    found: list[str] = []
    holding: set[int] = set()

    def note(connection: Connection, _cursor: object, statement: str, *_more: object) -> None:
        if id(connection) in holding:
            found.append(" ".join(statement.split()))
        elif "INSERT INTO changes" in statement:
            holding.add(id(connection))

    def forget(connection: Connection) -> None:
        holding.discard(id(connection))

    engine = database._writers
    event.listen(engine, "before_cursor_execute", note)
    event.listen(engine, "commit", forget)
    event.listen(engine, "rollback", forget)
    yield found


async def test_only_statements_that_need_the_number_follow_a_change(
    settings: Settings, database_url: str, parsers: SharedParsers
) -> None:
    engine: LocalEngine = make_test_engine(settings, parsers=parsers)
    database = engine._parts.database
    assert isinstance(database, PostgresDatabase)
    engine.start()
    try:
        with record_statements_after_changes(database) as after:
            caller = engine.as_caller(Caller())
            tea = await add_file(caller, "tea.txt", "tea is green", source_path="tea.txt")
            await add_file(caller, "tea.txt", "tea is black", source_path="tea.txt")
            note = await add_note(caller, "coffee is at ten", collection="coffee")
            await caller.edit(note.id, DocumentEdit(title="Coffee", add_tags=("drink",)))
            await caller.edit_collection(
                (await caller.create_collection(NewCollection(title="A"))).id, CollectionEdit()
            )
            await caller.remove(tea.id)
            await caller.remove_collection("coffee")
            await add_note(caller, "water is always there")
            await caller.clear()
    finally:
        engine.close()
    assert after, "publishing stores the number in the job"
    assert [statement for statement in after if not any(part in statement for part in NEEDS_THE_NUMBER)] == []
