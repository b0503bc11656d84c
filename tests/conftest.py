"""Shared fixtures: settings, the local engine, and the engine in both implementations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import settings as hypothesis_settings

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.model import Caller
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.guard import wrap_in_guard
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.postgres import MISSING, PostgresServer, find_binaries, run_postgres
from tests.support.s3 import MISSING as S3_MISSING
from tests.support.s3 import S3Server, find_program, run_s3

NO_BROWSER = "NO BROWSER"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line that the tests of the web page were skipped; a list of skipped tests is easily overlooked."""
    skipped = [report for report in terminalreporter.getreports("skipped") if NO_BROWSER in str(report.longrepr)]
    if skipped:
        reason = str(skipped[0].longrepr[2]) if isinstance(skipped[0].longrepr, tuple) else str(skipped[0].longrepr)
        terminalreporter.write_line(f"{len(skipped)} tests: {reason.removeprefix('Skipped: ')}", red=True, bold=True)


hypothesis_settings.register_profile("deterministic", derandomize=True, deadline=None)
hypothesis_settings.load_profile("deterministic")  # the same examples in every run


@pytest.fixture(scope="session")
def parsers() -> Iterator[SharedParsers]:
    """One fork server for all tests, because starting it takes longer than most of them."""
    shared = SharedParsers()
    shared.start()
    yield shared
    shared.shut_down()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL for the session."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(MISSING)
    with run_postgres(binaries) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server for the session."""
    program = find_program()
    if program is None:
        pytest.skip(S3_MISSING)
    with run_s3(program) as server:
        yield server


@pytest.fixture
def database_url() -> str | None:
    """None is SQLite; tests/engine runs on PostgreSQL too."""
    return None


@pytest.fixture
def settings(tmp_path: Path, database_url: str | None) -> Settings:
    return Settings(data=tmp_path / "data", workers=2, admin_users="root", database_url=database_url)


@pytest.fixture
def local(settings: Settings, parsers: SharedParsers) -> Iterator[LocalEngine]:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    yield engine
    engine.close()


@pytest.fixture(params=["local", "remote"])
async def engine(request: pytest.FixtureRequest, local: LocalEngine, settings: Settings) -> AsyncIterator[Engine]:
    """The engine in this process, and over HTTP with authentication."""
    if request.param == "local":
        yield local.as_caller(Caller())
        return
    authenticator = Authenticator.from_settings(
        settings, local.accounts.find_by_key, local.sessions.find, find_forwarded=local.oauth.find_token
    )
    transport = httpx.ASGITransport(app=wrap_in_guard(make_rest_app(local), settings, authenticator))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        yield RemoteEngine(http)
