"""POST /api/v1/mcp/query/stream: server-sent events of one query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import DatabaseFailed
from knowledge.model import Caller, NewCollection, Query, SearchAnswer
from knowledge.surfaces.http import sse
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import ENDPOINT, STREAM, Person, Product, make_person
from tests.contracts.transports import WAIT_SECONDS, Body


def read_events(answer: httpx.Response) -> list[Body]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def post_query(who: Person, body: Any, **headers: str) -> httpx.Response:
    async with who.http(**headers) as http:
        return await http.post(STREAM, json=body)


async def stream_events(who: Person, **body: Any) -> list[Body]:
    answer = await post_query(who, body, Accept="text/event-stream")
    assert answer.status_code == 200, answer.text
    return read_events(answer)


@pytest.mark.requirement("001.stream.events")
async def test_a_stream_sends_metadata_results_and_done(ada: Person) -> None:
    await ada.add_note("Python is a language.", "docs", title="About Python")
    await ada.add_note("Python is a snake.", "docs", title="Snakes")
    metadata, *results, complete, done = await stream_events(ada, query="What is Python?", n_results=5)
    assert metadata == {"type": "metadata", "query": "What is Python?", "collections": ["docs"]}
    assert [(one["type"], one["collection"], one["rank"]) for one in results] == [
        ("result", "docs", 1), ("result", "docs", 2),
    ]  # fmt: skip
    assert {one["text"] for one in results} == {"Python is a language.", "Python is a snake."}
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)
    assert complete == {"type": "collection_complete", "collection": "docs", "num_results": 2}
    assert done == {"type": "done", "total_results": 2}


@pytest.mark.requirement("001.stream.source")
async def test_a_result_has_its_source(ada: Person) -> None:
    await ada.add_file("teas.md", "# Teas\n\n## Black\n\nAssam is malty.\n", "drinks")
    [result] = [one for one in await stream_events(ada, query="assam") if one["type"] == "result"]
    document = (await ada.engine.document(result["document_id"])).title
    assert result["document"] == document == "Teas"
    assert result["section"] == ["Teas", "Black"] and result["chunk_index"] == 0


@pytest.mark.requirement("001.stream.collections")
async def test_collections_are_streamed_one_after_the_other_with_n_results_each(ada: Person) -> None:
    for collection in ("one", "two", "three"):
        for number in range(3):
            await ada.add_note(f"Tea number {number} of {collection}", collection)
    metadata, *told = await stream_events(ada, query="tea", collections=["three", "one", "two"], n_results=2)
    assert metadata["collections"] == ["three", "one", "two"]
    assert told.pop() == {"type": "done", "total_results": 6}
    order = [one["collection"] for one in told]
    assert sorted(order) == ["one"] * 3 + ["three"] * 3 + ["two"] * 3
    assert all(order[start : start + 3] == [order[start]] * 3 for start in (0, 3, 6))
    assert [one["type"] for one in told] == ["result", "result", "collection_complete"] * 3


@pytest.mark.requirement("001.stream.collection_error")
async def test_an_unknown_collection_is_an_event_and_the_others_continue(ada: Person, bob: Person) -> None:
    await ada.add_note("Tea is served at five.", "docs")
    await bob.add_note("Tea", "bobs")
    told = await stream_events(ada, query="tea", collections=["nowhere", "docs", "bobs"])
    assert told[0]["collections"] == ["docs", "nowhere", "bobs"]
    failed = [one for one in told if one["type"] == "collection_error"]
    assert failed == [
        {"type": "collection_error", "collection": name, "error": "Collection not found"}
        for name in ("nowhere", "bobs")
    ]
    assert told[-1] == {"type": "done", "total_results": 1}
    alone = await stream_events(ada, query="tea", collections=["nowhere"])
    assert [one["type"] for one in alone] == ["metadata", "collection_error", "done"]


@pytest.mark.requirement("001.stream.nothing")
async def test_a_caller_without_documents_gets_an_empty_stream(ada: Person) -> None:
    assert [one["type"] for one in await stream_events(ada, query="tea")][-1] == "done"
    await ada.engine.create_collection(NewCollection(title="empty box"))
    told = await stream_events(ada, query="tea", collections=["empty-box"])
    assert told[1] == {"type": "collection_complete", "collection": "empty-box", "num_results": 0}


# -- errors before the first byte ----------------------------------------------------------------


@pytest.mark.requirement("001.stream.auth")
async def test_an_authentication_error_has_its_status_and_one_event(product: Product) -> None:
    for key, code, detail in (
        (None, "auth.missing_api_key", "No API key provided"),
        ("wrong", "auth.invalid_api_key", "Invalid API key"),
        ("kn_wrong_key", "auth.invalid_api_key", "Invalid API key"),
    ):
        async with httpx.AsyncClient(base_url=product.url, headers={"X-API-Key": key} if key else {}) as http:
            answer = await http.post(STREAM, json={"query": "tea"})
        assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (401, code)
        assert read_events(answer) == [{"type": "error", "error_code": code, "detail": detail}]


@pytest.mark.requirement("001.stream.refused")
@pytest.mark.parametrize(
    ("body", "code", "detail"),
    [
        ({"query": ""}, "validation.empty_query", "Query cannot be empty"),
        ({"query": " \n"}, "validation.empty_query", "Query cannot be empty"),
        ({"query": "?!"}, "validation.empty_query", "Query cannot be empty"),
        ({}, "validation.invalid_parameter", "query"),
        ({"query": 5}, "validation.invalid_parameter", "query"),
        ({"query": "tea", "n_results": 0}, "validation.invalid_parameter", "n_results"),
        ({"query": "tea", "n_results": 21}, "validation.invalid_parameter", "n_results"),
        ({"query": "tea", "n_results": "many"}, "validation.invalid_parameter", "n_results"),
        ({"query": "tea", "collections": "docs"}, "validation.invalid_parameter", "collections"),
        ({"query": "tea", "collections": ["../x"]}, "validation.invalid_collection_name", "Invalid collection name"),
        ({"query": "tea", "top": 5}, "validation.invalid_parameter", "top"),
        ({"query": "x" * 10_001}, "validation.invalid_parameter", "query"),
        ([], "validation.invalid_parameter", "object"),
        ("tea", "validation.invalid_parameter", "object"),
    ],
)
async def test_an_invalid_query_has_its_status_and_one_event(ada: Person, body: Any, code: str, detail: str) -> None:
    await ada.add_note("Tea is served at five.")
    answer = await post_query(ada, body)
    [event] = read_events(answer)
    assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (422, code)
    assert (event["type"], event["error_code"]) == ("error", code)
    assert detail in event["detail"]


@pytest.mark.requirement("001.stream.malformed")
async def test_a_malformed_body_is_refused(ada: Person) -> None:
    async with ada.http() as http:
        for content, kind, status in (
            (b"{", "application/json", 400),
            (b"[" * 100_000, "application/json", 400),
            (b"\xff\xfe", "application/json", 400),
            (b"query=tea", "application/x-www-form-urlencoded", 415),
            (b" " * (5 << 20), "application/json", 413),
        ):
            answer = await http.post(STREAM, content=content, headers={"content-type": kind})
            assert answer.status_code == status, content[:20]
            [event] = read_events(answer)
            assert event["type"] == "error" and event["error_code"] == answer.headers["x-mcp-error-code"]
        assert (await http.get(STREAM)).status_code == 405
        unknown = await http.post(f"{STREAM}?top=5", json={"query": "tea"})
        assert unknown.status_code == 422 and read_events(unknown)[0]["type"] == "error"


# -- slow and failing collections ----------------------------------------------------------------


@dataclass
class Gates:
    """Collections that wait for an event of the test, and collections that fail."""

    closed: dict[int, asyncio.Event] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)
    asked: list[int] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)


class Slow:
    """An engine whose search is controlled by Gates."""

    def __init__(self, engine: Engine, gates: Gates) -> None:
        self._engine, self._gates = engine, gates

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def as_caller(self, caller: Caller) -> Any:
        return Slow(self._engine.as_caller(caller), self._gates)

    async def search(self, query: Query) -> SearchAnswer:
        [collection] = query.filter.collections
        assert isinstance(collection, int)
        self._gates.asked.append(collection)
        try:
            if collection in self._gates.closed:
                await self._gates.closed[collection].wait()
        except asyncio.CancelledError:
            self._gates.stopped.append(collection)
            raise
        if collection in self._gates.broken:
            raise DatabaseFailed("The database could not be used: disk I/O error")
        return await self._engine.search(query)


@pytest.fixture
async def slow(local: LocalEngine, product: Product) -> AsyncIterator[tuple[Gates, Person]]:
    """Serve an engine with gates and create an account with three collections."""
    gates = Gates()
    engine: Any = Slow(local, gates)
    async with serve_app(make_http_app(engine, product.settings)) as url:
        someone = await make_person(local, url)
        for name in ("a", "b", "c"):
            await someone.add_note(f"Tea of {name}.", name)
        yield gates, someone


@asynccontextmanager
async def open_stream(who: Person, **body: Any) -> AsyncIterator[AsyncIterator[str]]:
    async with who.http() as http, http.stream("POST", STREAM, json={"query": "tea", **body}) as response:
        assert response.status_code == 200
        yield response.aiter_lines()


async def next_event(lines: AsyncIterator[str]) -> Body:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            line = await anext(lines)
            if line.startswith("data: "):
                event: Body = json.loads(line.removeprefix("data: "))
                return event


@pytest.mark.requirement("001.stream.progressive")
async def test_results_are_sent_while_another_collection_is_still_searched(slow: tuple[Gates, Person]) -> None:
    gates, someone = slow
    late = (await someone.engine.collection("b")).id
    gates.closed[late] = asyncio.Event()
    async with open_stream(someone) as lines:
        told = [await next_event(lines) for _ in range(5)]
        assert [one["type"] for one in told] == ["metadata", *["result", "collection_complete"] * 2]
        assert {one.get("collection") for one in told[1:]} == {"a", "c"}
        gates.closed[late].set()
        assert [(await next_event(lines))["type"] for _ in range(3)] == ["result", "collection_complete", "done"]


@pytest.mark.requirement("001.stream.heartbeat")
async def test_a_heartbeat_keeps_an_idle_stream_alive(
    slow: tuple[Gates, Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.01)
    gates, someone = slow
    late = (await someone.engine.collection("b")).id
    gates.closed[late] = asyncio.Event()
    async with open_stream(someone) as lines, asyncio.timeout(WAIT_SECONDS):
        while await anext(lines) != ": heart-beat":
            pass
        gates.closed[late].set()
        while (await next_event(lines))["type"] != "done":
            pass


@pytest.mark.requirement("001.stream.disconnect")
async def test_a_client_that_disconnects_cancels_the_search(slow: tuple[Gates, Person]) -> None:
    gates, someone = slow
    numbers = [(await someone.engine.collection(name)).id for name in ("b", "c")]
    gates.closed = {number: asyncio.Event() for number in numbers}
    async with open_stream(someone) as lines:
        assert (await next_event(lines))["type"] == "metadata"
        async with asyncio.timeout(WAIT_SECONDS):
            while len(gates.asked) < 3:
                await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_SECONDS):
        while sorted(gates.stopped) != sorted(numbers):
            await asyncio.sleep(0.001)


@pytest.mark.requirement("001.stream.error")
async def test_an_error_after_the_first_event_is_the_last_event(slow: tuple[Gates, Person]) -> None:
    gates, someone = slow
    gates.broken.add((await someone.engine.collection("c")).id)
    told = await stream_events(someone, query="tea")
    assert told[0]["type"] == "metadata"
    assert told[-1]["type"] == "error" and told[-1]["error_code"] == "server.database_error"
    assert "done" not in [one["type"] for one in told]


@pytest.mark.requirement("001.stream.error_first")
async def test_an_error_before_the_first_event_has_its_status(slow: tuple[Gates, Person]) -> None:
    gates, someone = slow
    gates.broken.update([(await someone.engine.collection(name)).id for name in ("a", "b", "c")])
    answer = await post_query(someone, {"query": "tea"})
    assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (503, "server.database_error")
    assert [one["type"] for one in read_events(answer)] == ["error"]


async def test_the_stream_is_not_served_without_the_manager_toolset(settings: Settings, local: LocalEngine) -> None:
    key = (await local.accounts.issue_key((await local.accounts.add("ada")).username, "test")).secret
    narrowed = settings.model_copy(update={"toolsets": "kb"})
    async with serve_app(make_http_app(local, narrowed)) as url, httpx.AsyncClient(base_url=url) as http:
        for path in (STREAM, ENDPOINT):
            answer = await http.post(path, json={"query": "tea"}, headers={"X-API-Key": key})
            assert answer.status_code == 404, path
