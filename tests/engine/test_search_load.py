"""Under load, searches while typing are dropped before others."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.threads import EngineThreads
from knowledge.errors import Overloaded
from knowledge.surfaces.http.app import make_http_app

WAIT_SECONDS = 30.0


class Pool:
    """Threads with searches that run until they are released."""

    def __init__(self, threads: EngineThreads, cores: int = 2) -> None:
        self.threads = threads
        threads._cores = cores
        self.release = threading.Event()
        self.running: list[asyncio.Task[str]] = []

    async def start(self, typing: bool) -> None:
        """Start a search and return when it is running."""
        begun = threading.Event()

        def work() -> str:
            begun.set()
            assert self.release.wait(WAIT_SECONDS)
            return "found"

        self.running.append(asyncio.create_task(self.threads.run_search(work, typing=typing)))
        assert await asyncio.to_thread(begun.wait, WAIT_SECONDS)

    async def finish(self) -> list[str]:
        self.release.set()
        return await asyncio.gather(*self.running)


async def test_a_search_while_typing_is_dropped_if_other_searches_occupy_all_cores() -> None:
    pool = Pool(EngineThreads())
    try:
        await pool.start(typing=False)
        await pool.start(typing=True)
        await pool.start(typing=False)
        with pytest.raises(Overloaded) as caught:
            await pool.threads.run_search(lambda: "never", typing=True)
        assert caught.value.details["retry_after"] == 1 and caught.value.status == 503
        await pool.start(typing=False)  # other searches wait instead
        assert await pool.finish() == ["found"] * 4
        assert await pool.threads.run_search(lambda: "again", typing=True) == "again"
    finally:
        pool.release.set()
        pool.threads.close()


async def test_searches_while_typing_do_not_pile_up() -> None:
    pool = Pool(EngineThreads())
    try:
        for _ in range(4):
            await pool.start(typing=True)
        with pytest.raises(Overloaded):
            await pool.threads.run_search(lambda: "never", typing=True)
        assert await pool.threads.run_search(lambda: "found", typing=False) == "found"
        await pool.finish()
    finally:
        pool.release.set()
        pool.threads.close()


async def test_a_search_counts_until_its_thread_ends_also_if_its_caller_is_gone() -> None:
    pool = Pool(EngineThreads(), cores=1)
    try:
        await pool.start(typing=False)
        pool.running[0].cancel()
        await asyncio.wait(pool.running)
        with pytest.raises(Overloaded):
            await pool.threads.run_search(lambda: "never", typing=True)
        pool.release.set()
        pool.threads._pool.submit(lambda: None).result(WAIT_SECONDS)
        pool.threads.close()
        assert pool.threads._searches == {True: 0, False: 0}
    finally:
        pool.release.set()
        pool.threads.close()


async def test_a_search_that_fails_is_no_longer_counted() -> None:
    threads = EngineThreads()
    threads._cores = 1
    try:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await threads.run_search(lambda: 1 // 0, typing=True)
    finally:
        threads.close()
    assert threads._searches == {True: 0, False: 0}


async def test_a_dropped_search_is_answered_503_with_the_time_to_wait(local: LocalEngine, settings: Settings) -> None:
    pool = Pool(local._parts.threads, cores=1)
    transport = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        try:
            await pool.start(typing=False)
            dropped = await http.post("/api/v1/search", json={"query": "te", "typing": True})
            other = await http.post("/api/v1/search", json={"query": "tea"})
        finally:
            await pool.finish()
        assert (dropped.status_code, dropped.headers["retry-after"]) == (503, "1")
        assert dropped.json()["error"]["code"] == "overloaded"
        assert other.status_code == 200
        assert (await http.post("/api/v1/search", json={"query": "te", "typing": True})).status_code == 200


async def test_a_search_while_typing_is_never_reranked(local: LocalEngine) -> None:
    transport = httpx.ASGITransport(app=make_http_app(local, Settings(data=local._parts.options.data)))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:
        added = await http.post("/api/v1/jobs", json={"note": "tea in the kitchen"})
        await local.wait(added.json()["job_id"], WAIT_SECONDS)
        question = {"query": "tea kitchen", "mode": "rerank", "explain": True}
        plain = (await http.post("/api/v1/search", json=question)).json()
        typed = (await http.post("/api/v1/search", json={**question, "typing": True})).json()
    assert "rerank" in str(plain["explanation"]) or "Rerank" in str(plain["notes"])
    assert typed["mode"] == "hybrid" and "rerank" not in str(typed["explanation"]).lower() + str(typed["notes"]).lower()
