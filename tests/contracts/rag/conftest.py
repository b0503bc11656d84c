"""One server for all tests of this contract, a site to crawl, and an empty knowledge base for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from knowledge import app
from knowledge.config import Settings
from knowledge.engine.crawl.politeness import Retrying
from knowledge.engine.local import LocalEngine
from knowledge.testing import SharedParsers, small_engine
from tests.contracts.roads import PATIENCE, Plain, Road, held, official
from tests.contracts.serving import application, serving_beside
from tests.support.web_site import Site, serving


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    engine: LocalEngine
    shelf: Path
    """The only folder below which files may be opened."""


@pytest.fixture(scope="module")
def product(parsers: SharedParsers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    settings = Settings(
        data=tmp_path_factory.mktemp("served"), workers=1, max_file_mb=1, crawl_delay=0, crawl_allow="127.0.0.1"
    )
    crawl = replace(app.crawl_options(settings), retrying=Retrying(attempts=1, first_wait=0.01))
    engine = small_engine(settings, parsers=parsers, crawl=crawl)
    engine.start()
    shelf = tmp_path_factory.mktemp("shelf")
    with serving_beside(application(engine, settings, shelf)) as url:
        yield Product(url, engine, shelf)
    engine.close()


@pytest.fixture
async def empty(product: Product) -> AsyncIterator[None]:
    yield
    for source in (await product.engine.collections(per_page=200)).items:
        await product.engine.remove_collection(source.id)


@pytest.fixture(params=["plain", "modern"])
async def client(request: pytest.FixtureRequest, product: Product, empty: None) -> AsyncIterator[Road]:
    """The tools as curl reaches them, and as the official client does."""
    if request.param == "plain":
        async with httpx.AsyncClient(base_url=product.url, timeout=PATIENCE) as http:
            yield Plain(http, "/mcp/rag")
        return
    async with held(official(f"{product.url}/mcp/rag", "modern")) as there:
        yield there


@pytest.fixture
async def tools(product: Product, empty: None) -> AsyncIterator[Plain]:
    """One road, for what cannot differ between them."""
    async with httpx.AsyncClient(base_url=product.url, timeout=PATIENCE) as http:
        yield Plain(http, "/mcp/rag")


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as made:
        yield made


@pytest.fixture
def paper(product: Product) -> Path:
    path = product.shelf / "async.md"
    path.write_text("# Async patterns\n\nA coroutine awaits its friends.\n\n## Pools\n\nConnections are pooled.\n")
    return path
