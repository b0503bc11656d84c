"""Hybrid search over the layers: incremental indexing, keyword fallback, and isolation from other contracts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import EmptyQuery, Unavailable
from knowledge.model import DocumentFilter, Query
from knowledge.surfaces.sage import scope_to_layers, share_engine
from knowledge.toolsets.sage import search_tool as sage_search
from knowledge.toolsets.sage.content_folder import ContentFolder
from knowledge.toolsets.sage.layer_index import LayerIndex
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import SageService
from tests.contracts.sage.content_folder import make_sage, make_word_counter, wait_until, write_pages

TIMEOUTS = "content/frameworks/resilience/timeout_patterns.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "content")


@asynccontextmanager
async def open_indexed(folder: Path, engine: Engine) -> AsyncIterator[tuple[SageService, LayerIndex]]:
    library = Library(ContentFolder(folder))
    layer_index = LayerIndex(library, share_engine(engine))
    sage = SageService(library, make_word_counter, layer_index=layer_index)
    async with sage.run(search_soon=True):
        await wait_until(lambda: layer_index.is_ready)
        yield sage, layer_index


@pytest.mark.requirement("003.search.hybrid")
async def test_search_is_hybrid_after_the_layers_are_indexed(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local) as (sage, _):
        answer: Any = await sage_search.search_pages(sage, "pass the deadline on", 5)
    assert answer["mode"] == "hybrid"
    assert answer["complete"] is True
    first = answer["results"][0]
    assert first["path"] == TIMEOUTS
    assert first["title"] == "Timeout Patterns"
    assert "deadline" in first["snippet"]
    assert 0 < first["score"] <= 1
    assert answer["total"] >= len(answer["results"])


async def test_a_search_in_a_layer_returns_only_its_pages(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local) as (sage, _):
        answer: Any = await sage_search.search_pages(sage, "deadline", 5, "core")
        assert all(result["path"].startswith("content/core/") for result in answer["results"])


@pytest.mark.requirement("003.search.keyword")
async def test_search_uses_keywords_until_the_index_is_ready(folder: Path) -> None:
    answer: Any = await sage_search.search_pages(make_sage(ContentFolder(folder)), "deadline", 5)
    assert answer["mode"] == "words"
    assert [result["path"] for result in answer["results"]] == [TIMEOUTS]
    answer = await sage_search.search_pages(make_sage(ContentFolder(folder)), "deadline", 5, "practices")
    assert answer["results"] == []
    with pytest.raises(EmptyQuery):
        await sage_search.search_pages(make_sage(ContentFolder(folder)), "?!", 5)


@pytest.mark.requirement("003.search.isolated")
async def test_the_layers_are_invisible_to_other_contracts(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local):
        assert (await local.documents(DocumentFilter())).total == 0
        assert (await local.search(Query(text="deadline"))).hits == ()
        assert (await local.collections()).items == ()
        assert (await local.status()).documents == 0
        await local.clear()
        layers = scope_to_layers(local)
        assert layers is not None and (await layers.documents(DocumentFilter())).total == 5


@pytest.mark.requirement("003.watch.embedded")
async def test_only_changed_pages_are_embedded_again(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local) as (sage, layer_index):
        assert layer_index.embedded_pages == 5
        (folder / "core" / "defaults.md").write_text("# Defaults\n\nZebras graze at noon.\n", "utf-8")
        (folder / "practices" / "engineering.md").unlink()

        async def found(text: str) -> list[str]:
            answer: Any = await sage_search.search_pages(sage, text, 5)
            return [result["path"] for result in answer["results"] if result["matched_by"] != "meaning"]

        await wait_until(lambda: layer_index.embedded_pages == 6)
        layers = scope_to_layers(local)
        assert layers is not None
        while (await layers.documents(DocumentFilter())).total != 4 or not await found("zebras"):
            await wait_until(lambda: layer_index.is_ready)
        assert await found("zebras") == ["content/core/defaults.md"]
    async with open_indexed(folder, local) as (_, again):
        assert again.embedded_pages == 0


async def test_a_renamed_page_is_found_under_its_new_path(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local) as (_, layer_index):
        (folder / "core" / "defaults.md").rename(folder / "core" / "standards.md")
        await wait_until(lambda: layer_index.embedded_pages == 6)
        await wait_until(lambda: layer_index.is_ready)
        layers = scope_to_layers(local)
        assert layers is not None
        paths: set[str | None] = set()
        while "core/standards.md" not in paths:
            paths = {document.source_path for document in (await layers.documents(DocumentFilter())).items}
        assert "core/defaults.md" not in paths


async def test_an_engine_in_another_process_falls_back_to_keyword_search(folder: Path, engine: Engine) -> None:
    library = Library(ContentFolder(folder))
    layer_index = LayerIndex(library, share_engine(engine))
    async with SageService(library, make_word_counter, layer_index=layer_index).run(search_soon=True):
        await wait_until(lambda: layer_index.state in ("ready", "words alone"))
        assert layer_index.is_ready is isinstance(engine, LocalEngine)


async def test_a_failing_index_falls_back_to_keyword_search(folder: Path, local: LocalEngine) -> None:
    async with open_indexed(folder, local) as (sage, layer_index):

        async def raise_unavailable(text: str, layer: str) -> Any:
            raise Unavailable("not now")

        layer_index.search = raise_unavailable  # type: ignore[method-assign]
        answer: Any = await sage_search.search_pages(sage, "deadline", 5)
    assert answer["mode"] == "words"
    assert answer["results"][0]["path"] == TIMEOUTS


async def test_an_engine_that_cannot_be_opened_falls_back_to_keyword_search(folder: Path) -> None:
    @asynccontextmanager
    async def fail_to_open() -> AsyncIterator[Engine | None]:
        raise Unavailable("the data folder is in use")
        yield None

    library = Library(ContentFolder(folder))
    layer_index = LayerIndex(library, fail_to_open)
    sage = SageService(library, make_word_counter, layer_index=layer_index)
    async with sage.run():
        answer: Any = await sage_search.search_pages(sage, "deadline", 5)
        await wait_until(lambda: layer_index.state == "words alone")
    assert answer["results"][0]["path"] == TIMEOUTS
