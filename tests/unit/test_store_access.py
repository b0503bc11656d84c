"""Scopes are cached and invalidated by the commit that changes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, delete, insert, update

from knowledge.model import LOCAL_OWNER, Scope
from knowledge.store import schema
from knowledge.store.accounts.scopes import ScopeStore
from knowledge.store.sqlite import SqliteDatabase

CURATION = {"collection_id": 7, "category": "law", "version": "1", "is_public": True, "is_approved": False}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(tmp_path / "knowledge.db")
    yield opened
    opened.close()


def test_a_scope_is_cached_until_it_changes(database: SqliteDatabase) -> None:
    access = ScopeStore(database)
    assert access.get_cached_scope(LOCAL_OWNER) is None
    assert access.get_scope(LOCAL_OWNER) == access.get_cached_scope(LOCAL_OWNER) == Scope(LOCAL_OWNER)
    database.write(lambda connection: connection.execute(insert(schema.settings), {"name": "other", "value": "x"}))
    assert access.get_cached_scope(LOCAL_OWNER) == Scope(LOCAL_OWNER)


def test_every_change_invalidates_the_cache(database: SqliteDatabase) -> None:
    access = ScopeStore(database)
    curations = schema.curations
    given = insert(schema.grants).values(collection_id=7, account_id=LOCAL_OWNER, permission="write")
    for statement, sees, writes in [
        (insert(curations).values(CURATION), set(), set()),
        (update(curations).values(is_approved=True), {7}, set()),
        (given, {7}, {7}),
        (delete(curations), {7}, {7}),
        (update(schema.grants).values(permission="read"), {7}, set()),
        (delete(schema.grants), set(), set()),
    ]:
        access.get_scope(LOCAL_OWNER)
        database.write(lambda connection, statement=statement: connection.execute(statement))  # type: ignore[misc]
        assert access.get_cached_scope(LOCAL_OWNER) is None
        assert access.get_scope(LOCAL_OWNER) == Scope(LOCAL_OWNER, frozenset(sees), frozenset(writes))


def test_a_scope_read_before_a_commit_is_not_cached_beyond_it(database: SqliteDatabase) -> None:
    access = ScopeStore(database)
    seen: list[Scope] = []

    def work(connection: Connection) -> None:
        connection.execute(insert(schema.curations).values({**CURATION, "is_approved": True}))
        seen.append(access.get_scope(LOCAL_OWNER))  # a reader, while this is not yet committed

    database.write(work)
    assert seen == [Scope(LOCAL_OWNER)]
    assert access.get_scope(LOCAL_OWNER) == Scope(LOCAL_OWNER, frozenset({7}))
