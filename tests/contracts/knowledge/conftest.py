"""One server and one process for all tests of this contract; each test begins with an empty knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import JobFilter, JobStatus
from knowledge.testing import SharedParsers, small_engine
from tests.contracts.roads import PATIENCE, ROADS, Process, Road, held, road
from tests.contracts.serving import application, serving_beside

MAX_FILE_MB = 1


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    engine: LocalEngine
    settings: Settings
    shelf: Path
    """The only folder below which files may be opened."""


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="session")
def product(
    parsers: SharedParsers, shelf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:  # fmt: skip
    settings = Settings(data=tmp_path_factory.mktemp("served"), workers=1, max_file_mb=MAX_FILE_MB)
    engine = small_engine(settings, parsers=parsers)
    engine.start()
    with serving_beside(application(engine, settings, shelf)) as url:
        yield Product(url, engine, settings, shelf)
    engine.close()


@pytest.fixture(scope="session")
def process(shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    data = tmp_path_factory.mktemp("process")
    started = Process(
        data, KNOWLEDGE_FILES=str(shelf), KNOWLEDGE_MAX_FILE_MB=str(MAX_FILE_MB), KNOWLEDGE_WORKERS="1"
    )  # fmt: skip
    yield started
    started.close()


@pytest.fixture(params=ROADS)
async def client(request: pytest.FixtureRequest, product: Product) -> AsyncIterator[Road]:
    """The tools, by every road."""
    process = request.getfixturevalue("process") if request.param == "stdio" else None
    await at_rest(product.engine)
    async with held(road(request.param, product.url, process)) as there:
        await empty(there)
        yield there


@pytest.fixture
async def plain(product: Product) -> AsyncIterator[Road]:
    """The tools by plain HTTP, where the road makes no difference."""
    await at_rest(product.engine)
    async with road("plain", product.url, None) as there:
        await empty(there)
        yield there


def folder_of(there: Road, product: Product) -> Path:
    """The data folder behind a road."""
    return there.data if isinstance(there, Process) else product.settings.data


async def at_rest(engine: LocalEngine) -> None:
    """What an earlier test began and left has ended, and cannot appear in this one."""
    for status in (JobStatus.PROCESSING, JobStatus.QUEUED):
        for job in (await engine.jobs(JobFilter(status=status))).items:
            await engine.wait(job.id, PATIENCE)


async def empty(there: Road) -> None:
    cleared = await there.call("knowledge-clear", confirm=True, confirmation_phrase="DELETE ALL")
    assert cleared["success"] is True
