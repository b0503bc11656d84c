"""Two engines, or two server processes, on one PostgreSQL database with a shared folder of originals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.extract.process.parsers import Parsers
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.postgres import PostgresServer

OpenMember = Callable[..., LocalEngine]


@pytest.fixture
def shared_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def open_member(shared_url: str, tmp_path: Path, parsers: SharedParsers) -> Iterator[OpenMember]:
    """Opens and starts the engine of one more server on the database; `start=False` only opens it."""
    with ExitStack() as stack:

        def open_one(
            name: str, *, start: bool = True, parsers: Parsers | SharedParsers = parsers, **given: object
        ) -> LocalEngine:
            settings = Settings(
                data=tmp_path / name,
                database_url=shared_url,
                server_address=name,
                **{  # type: ignore[arg-type]
                    "workers": 2,
                    "admin_users": "root",
                    "lease_s": 3,
                    **({} if "originals_url" in given else {"originals": tmp_path / "originals"}),
                    **given,
                },
            )
            engine = make_test_engine(settings, parsers=parsers)
            if start:
                engine.start()
            stack.callback(engine.close)
            return engine

        yield open_one
