"""One server and one web site for all tests of contract 002; each test starts with an empty knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.crawl.politeness import RetryPolicy
from knowledge.engine.local import LocalEngine
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import make_app, serve_app_in_thread
from tests.contracts.transports import WAIT_SECONDS, PlainTransport, Transport, hold_open, open_sdk_transport
from tests.support.web_site import WebSite, serve_site


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    engine: LocalEngine
    files_folder: Path
    """The only allowed folder for files."""


@pytest.fixture(scope="module")
def product(parsers: SharedParsers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    settings = Settings(
        data=tmp_path_factory.mktemp("served"), workers=1, max_file_mb=1, crawl_delay=0, crawl_allow="127.0.0.1"
    )
    crawl = replace(app.build_crawl_options(settings), retry_policy=RetryPolicy(attempts=1, first_wait_seconds=0.01))
    engine = make_test_engine(settings, parsers=parsers, crawl=crawl)
    engine.start()
    files_folder = tmp_path_factory.mktemp("files")
    with serve_app_in_thread(make_app(engine, settings, files_folder)) as url:
        yield Product(url, engine, files_folder)
    engine.close()


@pytest.fixture
async def empty(product: Product) -> AsyncIterator[None]:
    yield
    for source in (await product.engine.collections(per_page=200)).items:
        await product.engine.remove_collection(source.id)


@pytest.fixture(params=["plain", "modern"])
async def client(request: pytest.FixtureRequest, product: Product, empty: None) -> AsyncIterator[Transport]:
    """The tools over plain HTTP and over the official client."""
    if request.param == "plain":
        async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
            yield PlainTransport(http, "/mcp/rag")
        return
    async with hold_open(open_sdk_transport(f"{product.url}/mcp/rag", "modern")) as there:
        yield there


@pytest.fixture
async def tools(product: Product, empty: None) -> AsyncIterator[PlainTransport]:
    """The tools over plain HTTP, for behaviour that is the same on every transport."""
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        yield PlainTransport(http, "/mcp/rag")


@pytest.fixture
def site() -> Iterator[WebSite]:
    with serve_site() as made:
        yield made


@pytest.fixture
def paper(product: Product) -> Path:
    path = product.files_folder / "async.md"
    path.write_text("# Async patterns\n\nA coroutine awaits its friends.\n\n## Pools\n\nConnections are pooled.\n")
    return path
