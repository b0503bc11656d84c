"""One server and one stdio process for all tests of contract 000; each test starts with an empty knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import JobFilter, JobStatus
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import make_app, serve_app_in_thread
from tests.contracts.transports import TRANSPORTS, WAIT_SECONDS, StdioTransport, Transport, hold_open, open_transport

MAX_FILE_MB = 1


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    engine: LocalEngine
    settings: Settings
    files_folder: Path
    """The only allowed folder for files."""


@pytest.fixture(scope="session")
def files_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="session")
def product(
    parsers: SharedParsers, files_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:  # fmt: skip
    settings = Settings(data=tmp_path_factory.mktemp("served"), workers=1, max_file_mb=MAX_FILE_MB)
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    with serve_app_in_thread(make_app(engine, settings, files_folder)) as url:
        yield Product(url, engine, settings, files_folder)
    engine.close()


@pytest.fixture(scope="session")
def process(files_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StdioTransport]:
    data = tmp_path_factory.mktemp("process")
    started = StdioTransport(
        data, KNOWLEDGE_FILES=str(files_folder), KNOWLEDGE_MAX_FILE_MB=str(MAX_FILE_MB), KNOWLEDGE_WORKERS="1"
    )  # fmt: skip
    yield started
    started.close()


@pytest.fixture
async def client(product: Product) -> AsyncIterator[Transport]:
    """The tools over plain HTTP, for behaviour that is the same on every transport."""
    await wait_for_jobs(product.engine)
    async with open_transport("plain", product.url, None) as there:
        await clear_knowledge_base(there)
        yield there


@pytest.fixture(params=TRANSPORTS)
async def transport_client(request: pytest.FixtureRequest, product: Product) -> AsyncIterator[Transport]:
    """The tools over each transport in turn."""
    process = request.getfixturevalue("process") if request.param == "stdio" else None
    await wait_for_jobs(product.engine)
    async with hold_open(open_transport(request.param, product.url, process)) as there:
        await clear_knowledge_base(there)
        yield there


def data_folder_of(there: Transport, product: Product) -> Path:
    """Return the data folder of the server behind a transport."""
    return there.data if isinstance(there, StdioTransport) else product.settings.data


async def wait_for_jobs(engine: LocalEngine) -> None:
    """Wait for jobs of earlier tests, so they do not appear in this one."""
    for status in (JobStatus.PROCESSING, JobStatus.QUEUED):
        for job in (await engine.jobs(JobFilter(status=status))).items:
            await engine.wait(job.id, WAIT_SECONDS)


async def clear_knowledge_base(there: Transport) -> None:
    cleared = await there.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert cleared["success"] is True
