"""The change log tells the index which documents changed, and of which only the vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.store.changes import ChangeBatch, ChangeLog, record_change
from knowledge.store.sqlite import SqliteDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "knowledge.db")
    yield database
    database.close()


def record(database: SqliteDatabase, document_id: int, *, vectors_only: bool = False) -> int:
    return database.write(lambda connection: record_change(connection, document_id, vectors_only=vectors_only))


def test_a_change_of_vectors_is_told_apart_from_a_change_of_the_document(database: SqliteDatabase) -> None:
    record(database, 7)
    last = record(database, 8, vectors_only=True)
    assert ChangeLog(database).read_after(0, 10) == ChangeBatch(last, documents=(7,), embedded=(8,))


@pytest.mark.parametrize("vectors_first", [True, False])
def test_a_document_that_changed_in_both_ways_is_entered_as_a_whole(
    database: SqliteDatabase, vectors_first: bool
) -> None:
    record(database, 7, vectors_only=vectors_first)
    last = record(database, 7, vectors_only=not vectors_first)
    assert ChangeLog(database).read_after(0, 10) == ChangeBatch(last, documents=(7,), embedded=())


def test_changes_in_different_batches_are_applied_in_their_order(database: SqliteDatabase) -> None:
    first, last = record(database, 7), record(database, 7, vectors_only=True)
    log = ChangeLog(database)
    assert log.read_after(0, 1) == ChangeBatch(first, documents=(7,), embedded=())
    assert log.read_after(first, 1) == ChangeBatch(last, documents=(), embedded=(7,))
    assert log.read_after(last, 1) is None
