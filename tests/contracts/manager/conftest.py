"""One server for all tests of contract 001; every test uses new accounts."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, CallerKind, Collection, NewCorpus, NewFile, NewNote
from knowledge.model.documents import Content
from knowledge.surfaces.http.app import make_http_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.contracts.app_server import serve_app_in_thread
from tests.contracts.transports import WAIT_SECONDS, Body, PlainTransport, SdkTransport, Transport, hold_open, unwrap

ENDPOINT, STREAM = "/api/v1/mcp/", "/api/v1/mcp/query/stream"
NUMBERS = itertools.count(1)
UNLIMITED_RATES: dict[str, Any] = {"query_rate_limit": "100000/minute", "auth_rate_limit": "off"}
"""All tests share one address; test_limits sets its own limits."""


@dataclass(frozen=True, slots=True)
class Product:
    url: str
    engine: LocalEngine
    settings: Settings


@pytest.fixture(scope="session")
def product(parsers: SharedParsers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    settings = Settings(
        data=tmp_path_factory.mktemp("manager"), workers=1, admin_users="the-admin", **UNLIMITED_RATES
    )  # fmt: skip
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    with serve_app_in_thread(make_http_app(engine, settings)) as url:
        yield Product(url, engine, settings)
    engine.close()


@dataclass(frozen=True, slots=True)
class Person:
    """An account with its API key and its view of the engine."""

    name: str
    key: str
    engine: Engine
    url: str

    async def add_note(self, text: str, collection: str = "documents", title: str | None = None) -> None:
        """Add a note and wait until it is searchable."""
        job = await self.engine.add(NewNote(text=text, title=title, collection=collection))
        ended = await self.engine.wait(job.id, WAIT_SECONDS)
        assert ended.document_id is not None, ended

    async def add_file(self, filename: str, text: str, collection: str | int = "documents") -> None:
        new = NewFile(filename=filename, content=Content.from_bytes(text.encode()), collection=collection)
        ended = await self.engine.wait((await self.engine.add(new)).id, WAIT_SECONDS)
        assert ended.document_id is not None, ended

    async def create_corpus(self, title: str, text: str = "", **facts: Any) -> Collection:
        """Create a corpus, with one document if a text is given."""
        corpus = await self.engine.corpora.create(NewCorpus(title=title, **facts))
        if text:
            await self.add_file(f"{corpus.name}.md", text, corpus.id)
        return await self.engine.corpora.get(corpus.id)

    @asynccontextmanager
    async def http(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(
            base_url=self.url, headers={"X-API-Key": self.key, **headers}, timeout=WAIT_SECONDS
        ) as client:
            yield client

    async def post(self, method: str, params: Any = None, path: str = ENDPOINT) -> httpx.Response:
        """Send plain JSON-RPC, as curl does."""
        message: Body = {"jsonrpc": "2.0", "method": method, "id": 1}
        if params is not None:
            message["params"] = params
        async with self.http() as http:
            return await http.post(path, json=message)

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        """Call a tool and return its fields from the top level of the plain JSON-RPC result."""
        answer = (await self.post("tools/call", {"name": tool, "arguments": arguments})).json()
        assert "result" in answer, answer
        result: Body = answer["result"]
        fields = unwrap(result)
        assert {name: result[name] for name in fields} == fields
        return fields

    async def call_refused(self, tool: str, /, **arguments: Any) -> tuple[int, str, str]:
        """Call a tool that is refused; return HTTP status, code and message."""
        return read_refusal(await self.post("tools/call", {"name": tool, "arguments": arguments}))


def read_refusal(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()
    assert set(body) == {"jsonrpc", "error", "id"}, body
    assert (body["jsonrpc"], body["id"]) == ("2.0", 1)
    error = body["error"]
    assert error["code"] == error["data"]["http_status"] == answer.status_code
    return answer.status_code, answer.headers["x-mcp-error-code"], error["message"]


MakeAccount: TypeAlias = Callable[..., Awaitable[Person]]


@pytest.fixture
def new_account(product: Product) -> MakeAccount:
    """Return a function that creates an account."""

    async def make(name: str | None = None) -> Person:
        return await make_person(product.engine, product.url, name)

    return make


async def make_person(engine: Engine, url: str, name: str | None = None) -> Person:
    name = name or f"person-{next(NUMBERS)}"
    await engine.accounts.add(name)
    issued = await engine.accounts.issue_key(name, "test")
    caller = await engine.accounts.find_by_key(issued.secret)
    assert isinstance(caller, Caller) and caller.kind is CallerKind.ACCOUNT
    return Person(name, issued.secret, engine.as_caller(caller), url)


@pytest.fixture
async def ada(new_account: MakeAccount) -> Person:
    return await new_account()


@pytest.fixture
async def bob(new_account: MakeAccount) -> Person:
    return await new_account()


@asynccontextmanager
async def open_sdk_transport(url: str, key: str, mode: str) -> AsyncIterator[SdkTransport]:
    """Connect the official client with the key of an account."""
    async with (
        httpx2.AsyncClient(headers={"X-API-Key": key}, timeout=WAIT_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy" if mode == "legacy" else "auto") as client,
    ):
        assert (client.protocol_version >= "2026") is (mode == "modern")
        yield SdkTransport(client)


@asynccontextmanager
async def open_plain_transport(url: str, key: str, path: str) -> AsyncIterator[PlainTransport]:
    async with httpx.AsyncClient(base_url=url, headers={"X-API-Key": key}, timeout=WAIT_SECONDS) as http:
        yield PlainTransport(http, path)


@pytest.fixture(params=["modern", "legacy", "plain", "without the slash", "/mcp/manager"])
async def transport_client(request: pytest.FixtureRequest, ada: Person) -> AsyncIterator[Transport]:
    """The tools of Ada's account over each transport and path in turn."""
    match request.param:
        case "modern" | "legacy":
            transport: Any = open_sdk_transport(f"{ada.url}{ENDPOINT}", ada.key, request.param)
        case "plain":
            transport = open_plain_transport(ada.url, ada.key, ENDPOINT)
        case "without the slash":
            transport = open_plain_transport(ada.url, ada.key, ENDPOINT.rstrip("/"))
        case other:
            transport = open_plain_transport(ada.url, ada.key, other)
    async with hold_open(transport) as there:
        yield there
