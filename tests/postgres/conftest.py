"""Two connections to one PostgreSQL database, as two servers have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from knowledge.store.postgres.postgres import PostgresDatabase
from tests.support.postgres import PostgresServer


@pytest.fixture
def database_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[PostgresDatabase]:
    opened = PostgresDatabase(database_url)
    yield opened
    opened.close()


@pytest.fixture
def other(database_url: str) -> Iterator[PostgresDatabase]:
    """The database as another server opens it."""
    opened = PostgresDatabase(database_url)
    yield opened
    opened.close()
