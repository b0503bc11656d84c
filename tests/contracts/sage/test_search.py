"""The layers in the engine: hybrid search over them, fed with what changed only, and seen by nobody else."""

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
from knowledge.surfaces.sage import layers_of, shelves_on
from knowledge.toolsets.sage import search as sage_search
from knowledge.toolsets.sage.content_folder import Disk
from knowledge.toolsets.sage.index_sync import Shelves
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import Sage
from tests.contracts.sage.folder import make_sage, until, words, write_pages

TIMEOUTS = "content/frameworks/resilience/timeout_patterns.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "content")


@asynccontextmanager
async def filled(folder: Path, engine: Engine) -> AsyncIterator[tuple[Sage, Shelves]]:
    library = Library(Disk(folder))
    shelves = Shelves(library, shelves_on(engine))
    sage = Sage(library, words, shelves=shelves)
    async with sage.running(search_soon=True):
        await until(lambda: shelves.ready)
        yield sage, shelves


@pytest.mark.requirement("003.search.hybrid")
async def test_a_search_goes_by_words_and_meaning_once_the_layers_are_indexed(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local) as (sage, _):
        answer: Any = await sage_search.search(sage, "pass the deadline on", 5)
    assert answer["mode"] == "hybrid"
    assert answer["complete"] is True
    first = answer["results"][0]
    assert first["path"] == TIMEOUTS
    assert first["title"] == "Timeout Patterns"
    assert "deadline" in first["snippet"]
    assert 0 < first["score"] <= 1
    assert answer["total"] >= len(answer["results"])


async def test_a_search_in_a_layer_stays_there(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local) as (sage, _):
        answer: Any = await sage_search.search(sage, "deadline", 5, "core")
        assert all(result["path"].startswith("content/core/") for result in answer["results"])


@pytest.mark.requirement("003.search.words")
async def test_until_then_words_are_searched_in_memory(folder: Path) -> None:
    answer: Any = await sage_search.search(make_sage(Disk(folder)), "deadline", 5)
    assert answer["mode"] == "words"
    assert [result["path"] for result in answer["results"]] == [TIMEOUTS]
    answer = await sage_search.search(make_sage(Disk(folder)), "deadline", 5, "practices")
    assert answer["results"] == []
    with pytest.raises(EmptyQuery):
        await sage_search.search(make_sage(Disk(folder)), "?!", 5)


@pytest.mark.requirement("003.search.own")
async def test_no_other_contract_sees_the_layers(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local):
        assert (await local.documents(DocumentFilter())).total == 0
        assert (await local.search(Query(text="deadline"))).hits == ()
        assert (await local.collections()).items == ()
        assert (await local.status()).documents == 0
        await local.clear()
        layers = layers_of(local)
        assert layers is not None and (await layers.documents(DocumentFilter())).total == 5


@pytest.mark.requirement("003.watch.embedded")
async def test_only_what_changed_is_embedded_again(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local) as (sage, shelves):
        assert shelves.embedded == 5
        (folder / "core" / "defaults.md").write_text("# Defaults\n\nZebras graze at noon.\n", "utf-8")
        (folder / "practices" / "engineering.md").unlink()

        async def found(text: str) -> list[str]:
            answer: Any = await sage_search.search(sage, text, 5)
            return [result["path"] for result in answer["results"] if result["matched_by"] != "meaning"]

        await until(lambda: shelves.embedded == 6)
        layers = layers_of(local)
        assert layers is not None
        while (await layers.documents(DocumentFilter())).total != 4 or not await found("zebras"):
            await until(lambda: shelves.ready)
        assert await found("zebras") == ["content/core/defaults.md"]
    async with filled(folder, local) as (_, again):
        assert again.embedded == 0


async def test_a_renamed_page_is_found_at_its_new_place(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local) as (_, shelves):
        (folder / "core" / "defaults.md").rename(folder / "core" / "standards.md")
        await until(lambda: shelves.embedded == 6)
        await until(lambda: shelves.ready)
        layers = layers_of(local)
        assert layers is not None
        paths: set[str | None] = set()
        while "core/standards.md" not in paths:
            paths = {document.source_path for document in (await layers.documents(DocumentFilter())).items}
        assert "core/defaults.md" not in paths


async def test_an_engine_of_another_process_leaves_words(folder: Path, engine: Engine) -> None:
    library = Library(Disk(folder))
    shelves = Shelves(library, shelves_on(engine))
    async with Sage(library, words, shelves=shelves).running(search_soon=True):
        await until(lambda: shelves.state in ("ready", "words alone"))
        assert shelves.ready is isinstance(engine, LocalEngine)


async def test_an_index_that_fails_is_replaced_by_words(folder: Path, local: LocalEngine) -> None:
    async with filled(folder, local) as (sage, shelves):

        async def fails(text: str, layer: str) -> Any:
            raise Unavailable("not now")

        shelves.search = fails  # type: ignore[method-assign]
        answer: Any = await sage_search.search(sage, "deadline", 5)
    assert answer["mode"] == "words"
    assert answer["results"][0]["path"] == TIMEOUTS


async def test_an_engine_that_cannot_be_opened_leaves_words(folder: Path) -> None:
    @asynccontextmanager
    async def nothing() -> AsyncIterator[Engine | None]:
        raise Unavailable("the data folder is in use")
        yield None

    library = Library(Disk(folder))
    shelves = Shelves(library, nothing)
    sage = Sage(library, words, shelves=shelves)
    async with sage.running():
        answer: Any = await sage_search.search(sage, "deadline", 5)
        await until(lambda: shelves.state == "words alone")
    assert answer["results"][0]["path"] == TIMEOUTS
