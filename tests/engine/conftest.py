"""Runs every engine test in this process and over HTTP with SQLite, and in this process with PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer

SQLITE, POSTGRESQL = "sqlite", "postgresql"


@pytest.fixture(params=[SQLITE, POSTGRESQL])
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == SQLITE:
        yield None
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    with postgres.database() as url:
        yield url


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_left_out(item)]


def is_left_out(item: pytest.Item) -> bool:
    """Return whether a test would repeat the HTTP transport on PostgreSQL, or is about the files of SQLite."""
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    if given.get("database_url") != POSTGRESQL:
        return False
    return given.get("engine") == "remote" or item.get_closest_marker("only_sqlite") is not None
