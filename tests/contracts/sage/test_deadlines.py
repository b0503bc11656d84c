"""The deadlines T1 to T5 hold on a slow disk and a slow index, with partial results."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import DeadlineExceeded
from knowledge.model import SAGE_OWNER, Query, Scope, SearchAnswer
from knowledge.toolsets.sage import context as sage_context
from knowledge.toolsets.sage import search_tool as sage_search
from knowledge.toolsets.sage.content_folder import ContentFolder
from knowledge.toolsets.sage.layer_index import LayerIndex
from knowledge.toolsets.sage.library import Library
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.timeouts import LEVEL_MS, Deadline, collect_within, find_level
from tests.contracts.sage.content_folder import SlowContentFolder, make_sage, make_word_counter, wait_until, write_pages

MARGIN = 1.2
"""Maximum ratio of the response time to a plain sleep of the same length."""
FOREVER = 60.0


@pytest.fixture(autouse=True)
def release_delayed_reads() -> Iterator[None]:
    yield
    SlowContentFolder.release_all()
    for thread in threading.enumerate():
        if thread.name == "gather":
            thread.join(FOREVER)


async def miss_deadline(work: Awaitable[object]) -> tuple[DeadlineExceeded, float]:
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded) as refused:
        await work
    return refused.value, time.monotonic() - began


async def measure_sleep(milliseconds: int) -> float:
    began = time.monotonic()
    await asyncio.sleep(milliseconds / 1000)
    return time.monotonic() - began


@pytest.mark.requirement("003.time.levels")
async def test_each_level_returns_partial_results_at_its_deadline(tmp_path: Path) -> None:
    def sage(**quick: Any) -> SageService:
        return make_sage(SlowContentFolder(write_pages(tmp_path), FOREVER, **quick))

    ready = sage(quick=("core/defaults.md", "core/principles.md"))
    ways = {
        "T2": sage().get_knowledge("core", "principles", 600_000),
        "T3": sage_search.search_pages(ready, "deadline", 10),
        "T4": sage(quick=("core/defaults.md",)).get_knowledge("core", None, 600_000),
        "T5": sage_context.build_context(
            sage(quick=("core/defaults.md", "core/principles.md")), "coding", "python", 1000
        ),
    }
    controls = asyncio.gather(*(measure_sleep(LEVEL_MS[level]) for level in ways))
    answers = await asyncio.gather(*(miss_deadline(way) for way in ways.values()))
    for level, (error, seconds), control in zip(ways, answers, await controls, strict=True):
        assert seconds / control < MARGIN, level
        assert error.details["timeout_level"] == level
        assert str(error) == f"Operation exceeded {level} timeout ({LEVEL_MS[level]}ms)"
        fallback = error.details["fallback"]
        assert isinstance(fallback, dict) and fallback["complete"] is False
    fallbacks: list[Any] = [error.details["fallback"] for error, _ in answers]
    assert fallbacks[0]["content"] == ""
    assert fallbacks[1]["mode"] == "words"
    assert fallbacks[2]["content"].startswith("# Defaults")
    assert fallbacks[2]["files"] == ["content/core/defaults.md"]
    assert "# Defaults" in fallbacks[3]["content"] and "# Core Principles" in fallbacks[3]["content"]


@pytest.mark.requirement("003.time.caller_timeout")
@pytest.mark.parametrize("timeout_ms", [1, 30, 150, 300])
async def test_a_timeout_shorter_than_the_level_is_respected(tmp_path: Path, timeout_ms: int) -> None:
    sage = make_sage(SlowContentFolder(write_pages(tmp_path), FOREVER, walk_seconds=FOREVER))
    (error, seconds), control = await asyncio.gather(
        miss_deadline(sage.get_knowledge("core", None, timeout_ms)), measure_sleep(300)
    )
    assert seconds / control < MARGIN
    assert error.details["timeout_ms"] == timeout_ms
    assert error.details["timeout_level"] == find_level(timeout_ms)


@pytest.mark.requirement("003.time.cache_only")
async def test_t1_answers_from_memory_and_never_touches_the_disk(tmp_path: Path) -> None:
    disk = SlowContentFolder(write_pages(tmp_path), 0.0)
    sage = make_sage(disk)
    error, _ = await miss_deadline(sage.get_knowledge("core", "principles", 100))
    assert disk.reads == []
    assert error.details["timeout_level"] == "T1"
    await sage.get_knowledge("core", "principles", 2000)
    answer: Any = await sage.get_knowledge("core", "principles", 100)
    assert answer["metadata"]["from_cache"] is True
    assert disk.reads == ["core/principles.md"]
    error, _ = await miss_deadline(sage.get_knowledge("core", None, 100))
    partial: Any = error.details["fallback"]
    assert partial["files"] == ["content/core/principles.md"]
    assert disk.reads == ["core/principles.md"]


async def test_a_running_server_preloads_its_pages(tmp_path: Path) -> None:
    sage = make_sage(ContentFolder(write_pages(tmp_path)))
    async with sage.run():
        await wait_until(lambda: len(list(sage.library.list_cached())) == 5)
        answer: Any = await sage.get_knowledge("all", None, 100)
    assert answer["metadata"]["files_loaded"] == 5


async def test_a_page_read_after_the_deadline_is_cached_for_the_next_call(tmp_path: Path) -> None:
    disk = SlowContentFolder(write_pages(tmp_path), 0.25)
    sage = make_sage(disk)
    await miss_deadline(sage.get_knowledge("core", "defaults", 150))
    await wait_until(lambda: sage.library.find_cached("core/defaults.md") is not None)
    answer: Any = await sage.get_knowledge("core", "defaults", 2000)
    assert answer["metadata"]["from_cache"] is True


@pytest.mark.requirement("003.time.cancelled")
async def test_remaining_reads_are_cancelled_at_the_deadline(tmp_path: Path) -> None:
    disk = SlowContentFolder(write_pages(tmp_path), 0.2)
    await miss_deadline(make_sage(disk).get_knowledge("all", None, 300))
    await wait_until(lambda: all(thread.name != "gather" for thread in threading.enumerate()))
    assert len(disk.reads) < 5


@pytest.mark.requirement("003.time.counter")
async def test_timeouts_are_logged_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sage = make_sage(SlowContentFolder(write_pages(tmp_path), FOREVER))
    with caplog.at_level(logging.WARNING, "knowledge"):
        await miss_deadline(sage.get_knowledge("core", "principles", 150))
        await miss_deadline(sage.get_knowledge("core", "principles", 50))
    info: Any = await sage.info()
    assert info["timeouts"] == {"total": 2, "T1": 1, "T2": 1, "T3": 0, "T4": 0, "T5": 0}
    assert len([record for record in caplog.records if record.message == "deadline exceeded"]) == 2


@pytest.mark.requirement("003.config.timeout_ms")
async def test_the_configured_timeout_limits_every_call(tmp_path: Path) -> None:
    sage = make_sage(SlowContentFolder(write_pages(tmp_path), FOREVER), ceiling_ms=200)
    calls = (
        sage.get_knowledge("core", None, 5000),
        sage_search.search_pages(sage, "x", 1),
        sage_context.build_context(sage, "coding", "", 9),
    )
    answers = await asyncio.gather(*map(miss_deadline, calls))
    assert [error.details["timeout_ms"] for error, _ in answers] == [200, 200, 200]


class SlowIndex:
    """An engine whose search never answers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def search(self, query: Query) -> SearchAnswer:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


@pytest.mark.requirement("003.time.slow_index")
async def test_a_hanging_index_falls_back_to_keyword_search_within_the_deadline(
    tmp_path: Path, local: LocalEngine
) -> None:
    library = Library(ContentFolder(write_pages(tmp_path / "content")))
    slow = SlowIndex(local.with_scope(Scope(SAGE_OWNER)))

    @asynccontextmanager
    async def open_layers() -> AsyncIterator[Engine]:
        yield slow

    layer_index = LayerIndex(library, open_layers)
    sage = SageService(library, make_word_counter, layer_index=layer_index)
    async with sage.run(search_soon=True):
        await wait_until(lambda: layer_index.is_ready)
        (error, seconds), control = await asyncio.gather(
            miss_deadline(sage_search.search_pages(sage, "deadline", 5)), measure_sleep(LEVEL_MS["T3"])
        )
    assert slow.asked == 1
    assert seconds / control < MARGIN
    fallback: Any = error.details["fallback"]
    assert fallback["results"][0]["path"] == "content/frameworks/resilience/timeout_patterns.md"


async def test_an_error_in_a_step_is_raised_and_not_treated_as_a_timeout() -> None:
    def steps() -> Any:
        yield 1
        raise TimeoutError("the disk's own")

    with pytest.raises(TimeoutError, match="own"):
        await collect_within(steps(), FOREVER)


def test_a_timeout_maps_to_its_level() -> None:
    assert [find_level(ms) for ms in (1, 100, 101, 500, 2000, 2001, 5000, 10_000)] == [
        "T1", "T1", "T2", "T2", "T3", "T4", "T4", "T5",
    ]  # fmt: skip
    assert Deadline.for_level("T4", 2000, None).milliseconds == 2000
    assert Deadline.for_level("T2", 600_000).milliseconds == 500
