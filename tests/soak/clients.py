"""Connected clients over REST, MCP and the page; each sends the searches that it is given, one after the other."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import Browser, Page

from knowledge.model.events import EventKind
from knowledge.wire.events import EventParser
from tests.soak.record import Acknowledged, Latencies
from tests.soak.server import RestartedServer

SEARCH_SECONDS = 120.0
RESULTS = 10


@dataclass(slots=True)
class Question:
    text: str
    due: float
    epoch: int
    path: str = ""
    word: str = ""
    """Word of a stored document that the answer must contain; empty for a question with any answer."""


class SearchFailure(Exception):
    """A search was refused, or did not find what was acknowledged."""


@dataclass
class SoakClient(ABC):
    """A connection that stays open between searches and is opened again after the server was stopped."""

    server: RestartedServer
    acknowledged: Acknowledged
    latencies: Latencies
    key: str
    surface: str = ""
    queue: asyncio.Queue[Question] = field(default_factory=asyncio.Queue)
    connections: int = 0

    @abstractmethod
    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        """Open a connection."""
        yield

    @abstractmethod
    async def search(self, connection: Any, text: str) -> Any:
        """Return the hits as JSON, without the question."""

    async def run(self) -> None:
        question: Question | None = None
        while True:
            await self.server.ready.wait()
            epoch = self.server.epoch
            try:
                async with self.connect() as connection:
                    self.connections += 1
                    while True:
                        question = question or await self.queue.get()
                        epoch = self.server.epoch
                        await self._ask(connection, question)
                        question = None
            except Exception as error:  # the SDK raises groups of any errors when the connection is lost
                if self.server.epoch == epoch and epoch % 2 == 0:
                    self.latencies.failures.append(f"{self.surface}: {describe_error(error)}")
                    question = None
                elif question is not None:
                    self.latencies.interrupted += 1

    async def _ask(self, connection: Any, question: Question) -> None:
        known = self._is_settled(question)
        hits = json.dumps(await asyncio.wait_for(self.search(connection, question.text), SEARCH_SECONDS))
        now = time.monotonic()
        if known and self._is_settled(question) and question.word not in hits:
            raise SearchFailure(f"{question.path} with {question.word} is acknowledged and not found: {hits[:300]}")
        if question.epoch == self.server.epoch and question.epoch % 2 == 0:
            self.latencies.seconds[self.surface].append(now - question.due)
        else:
            self.latencies.interrupted += 1

    def _is_settled(self, question: Question) -> bool:
        """Return whether the document of a question is stored and not being changed."""
        stored = self.acknowledged.stored.get(question.path)
        return stored == question.word and question.path not in self.acknowledged.changing


def describe_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def read_hits(answer: httpx.Response) -> Any:
    if answer.status_code != httpx.codes.OK:
        raise SearchFailure(f"HTTP {answer.status_code}: {answer.text[:300]}")
    return answer.json()["results"]


@dataclass
class RestClient(SoakClient):
    surface: str = "REST"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"X-API-Key": self.key}
        async with httpx.AsyncClient(base_url=f"{self.server.url}/api/v1", headers=headers, timeout=None) as http:
            yield http

    async def search(self, connection: httpx.AsyncClient, text: str) -> Any:
        return read_hits(await connection.post("/search", json={"query": text, "top": RESULTS}))


@dataclass
class McpClient(SoakClient):
    """A client of the official SDK; `mode` is legacy for a session with a handshake, auto for the newest protocol."""

    surface: str = "MCP"
    mode: str = "auto"

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(headers={"X-API-Key": self.key}, timeout=SEARCH_SECONDS) as http,
            Client(
                streamable_http_client(f"{self.server.url}/mcp", http_client=http),
                mode=self.mode, read_timeout_seconds=SEARCH_SECONDS,
            ) as client,
        ):  # fmt: skip
            yield client

    async def search(self, connection: Client, text: str) -> Any:
        answer = await connection.call_tool("knowledge-search", {"query": text, "top_k": RESULTS})
        if answer.is_error or not isinstance(answer.structured_content, dict):
            raise SearchFailure(str(answer)[:300])
        return answer.structured_content["results"]


@dataclass
class PageClient(SoakClient):
    """What a browser with the page open does: an event stream that is read all the time, and searches while typing."""

    surface: str = "page"
    session: str = ""
    events: int = 0
    streams: int = 0
    last_seq: int = 0

    @property
    def cookie(self) -> dict[str, str]:
        return {"Cookie": f"knowledge_session={self.session}", "Sec-Fetch-Site": "same-origin"}

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(
            base_url=f"{self.server.url}/api/v1", headers=self.cookie, timeout=None, trust_env=False
        ) as http:
            reading = asyncio.create_task(self._read_events(http))
            try:
                yield http
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    async def _read_events(self, http: httpx.AsyncClient) -> None:
        while True:
            await self.server.ready.wait()
            last = {"Last-Event-ID": str(self.last_seq)} if self.last_seq else {}
            try:
                async with http.stream("GET", "/events", headers=last) as stream:
                    if stream.status_code != httpx.codes.OK:
                        self.latencies.failures.append(f"events: HTTP {stream.status_code}")
                        return
                    self.streams += 1
                    parser = EventParser()
                    async for line in stream.aiter_lines():
                        event = parser.parse_line(line)
                        if event is not None:
                            self.events += event.kind is not EventKind.HEARTBEAT
                            self.last_seq = max(self.last_seq, event.seq or 0)
            except httpx.TransportError:
                await asyncio.sleep(0.5)  # as EventSource does

    async def search(self, connection: httpx.AsyncClient, text: str) -> Any:
        return read_hits(await connection.post("/search", json={"query": text, "top": RESULTS, "highlight": True}))


@dataclass
class ChromiumClient(PageClient):
    """The page in a real browser."""

    surface: str = "Chromium"
    browser: Browser | None = None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Page]:  # type: ignore[override]
        assert self.browser is not None
        context = await self.browser.new_context()
        try:
            await context.add_cookies([{"name": "knowledge_session", "value": self.session, "url": self.server.url}])
            page = await context.new_page()
            await page.goto(f"{self.server.url}/")
            self.streams += 1
            yield page
        finally:
            await context.close()

    async def search(self, connection: Page, text: str) -> Any:  # type: ignore[override]
        def is_answer(request_url: str, body: str | None) -> bool:
            return request_url.endswith("/api/v1/search") and json.loads(body or "{}").get("query") == text

        async with connection.expect_response(
            lambda response: is_answer(response.url, response.request.post_data), timeout=SEARCH_SECONDS * 1000
        ) as waiting:
            await connection.get_by_role("searchbox").fill(text)
        answer = await waiting.value
        if not answer.ok:
            raise SearchFailure(f"HTTP {answer.status}")
        return (await answer.json())["results"]
