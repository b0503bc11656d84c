"""Every error has one shape: code, message, hint and details; also the framework's own errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, cast

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.engine.api import Engine
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.errors import KnowledgeError
from knowledge.model import Caller, Query
from knowledge.surfaces.rest import make_rest_app

Json = dict[str, Any]


class Failing:
    """An engine whose methods all raise the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def as_caller(self, _: Caller) -> Failing:
        return self

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        async def fail(*given: object, **named: object) -> None:
            raise self._error

        return fail


def client(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client(make_rest_app(cast(Engine, Failing(RuntimeError("the inner workings"))))) as made:
        yield made


def error_of(reply: httpx.Response) -> Json:
    assert set(reply.json()) == {"error"}
    error: Json = reply.json()["error"]
    assert set(error) == {"code", "message", "hint", "details"}
    assert reply.headers["x-mcp-error-code"] == error["code"]
    assert reply.headers["content-type"] == "application/json"
    return error


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/v1/nowhere", 404, "not_found"),
        ("GET", "/api/v1/status/", 404, "not_found"),
        ("PUT", "/api/v1/search", 405, "method_not_allowed"),
        ("TRACE", "/api/v1/status", 405, "method_not_allowed"),
        ("GET", "/api/v1/documents/abc", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents/9223372036854775808", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents?page=0", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents?page=x", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents?per_page=201", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents?sort=color", 422, "invalid_parameter"),
        ("GET", "/api/v1/documents?limit=5", 422, "unknown_parameter"),
        ("GET", "/api/v1/jobs?status=asleep", 422, "invalid_parameter"),
        ("GET", "/api/v1/status?verbose=1", 422, "unknown_parameter"),
        ("DELETE", "/api/v1/documents?confirm=perhaps", 422, "invalid_parameter"),
        ("GET", "/api/v1/collections/%20", 422, "invalid_parameter"),
    ],
)
async def test_an_invalid_request_is_refused_in_one_shape(
    http: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    reply = await http.request(method, path)
    error = error_of(reply)
    assert (reply.status_code, error["code"]) == (status, code)
    assert error["hint"]


async def test_a_wrong_method_is_answered_with_the_allowed_ones(http: httpx.AsyncClient) -> None:
    reply = await http.put("/api/v1/search")
    assert reply.headers["allow"] == "POST"
    assert "POST" in error_of(reply)["hint"]


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"query": "\\ud800"}', b"[" * 100_000, b'{"query": 1e}'])
async def test_a_body_that_is_not_json_is_malformed(http: httpx.AsyncClient, body: bytes) -> None:
    reply = await http.post("/api/v1/search", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, error_of(reply)["code"]) == (400, "malformed")


@pytest.mark.parametrize("body", [b"[]", b'"query"', b"7", b"null"])
async def test_a_body_that_is_no_object_is_refused(http: httpx.AsyncClient, body: bytes) -> None:
    reply = await http.post("/api/v1/search", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, error_of(reply)["code"]) == (422, "invalid")


async def test_another_content_type_is_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post("/api/v1/search", content=b"query=tea", headers={"content-type": "text/xml"})
    assert reply.status_code == 415
    assert "application/json" in error_of(reply)["hint"]


async def test_a_body_over_the_limit_is_refused(http: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * (1 << 20)

    for content in (endless(), b" " * (17 << 20)):
        reply = await http.post("/api/v1/search", content=content, headers={"content-type": "application/json"})
        assert (reply.status_code, error_of(reply)["code"]) == (413, "too_large")


async def test_an_internal_error_does_not_leak_its_text(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await http.post("/api/v1/search", json={"query": "the question"})
    assert (reply.status_code, error_of(reply)["code"]) == (500, "internal")
    assert "inner workings" not in reply.text
    assert "inner workings" in caplog.text
    assert "the question" not in caplog.text


@pytest.mark.parametrize("kind", ERRORS_BY_CODE.values(), ids=lambda kind: kind.code)
async def test_every_error_of_the_engine_has_its_http_status(kind: type[KnowledgeError]) -> None:
    app = make_rest_app(cast(Engine, Failing(kind("It went wrong", document_id=7))))
    async with client(app) as http:
        reply = await http.post("/api/v1/search", json={"query": "tea"})
    error = error_of(reply)
    assert (reply.status_code, error["code"]) == (kind.status, kind.code)
    assert (error["message"], error["details"]) == ("It went wrong", {"document_id": 7})


async def test_health_is_503_while_the_server_starts() -> None:
    ready = False
    app = make_rest_app(cast(Engine, Failing(AssertionError())), ready=lambda: ready)
    async with client(app) as http:
        for path in ("/health", "/api/v1/health"):
            reply = await http.get(path)
            assert (reply.status_code, reply.json()) == (503, {"status": "starting"})
        refused = await http.post("/api/v1/search", json={"query": "tea"})
        assert (refused.status_code, error_of(refused)["code"]) == (503, "starting")
        ready = True
        reply = await http.get("/health")
        assert (reply.status_code, reply.json()["status"]) == (200, "healthy")


async def test_the_openapi_document_describes_every_route_and_error(http: httpx.AsyncClient) -> None:
    api: Json = (await http.get("/openapi.json")).json()
    calls = [(path, method) for path, methods in api["paths"].items() for method in methods]
    assert len(calls) >= 24
    assert "HTTPValidationError" not in api["components"]["schemas"]
    for path, method in calls:
        call = api["paths"][path][method]
        assert call["description"], (method, path)
        if not path.endswith(("/health", "/ready")):
            assert {"400", "401", "422", "503"} <= set(call["responses"])
    for ref in _references(api):
        assert ref.split("/")[-1] in api["components"]["schemas"]


def _references(node: object) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in _references(value)]
    return [ref for value in node for ref in _references(value)] if isinstance(node, list) else []


async def test_the_docs_page_fetches_nothing_from_other_hosts(http: httpx.AsyncClient) -> None:
    reply = await http.get("/docs")
    assert reply.headers["content-type"].startswith("text/html")
    assert "://" not in reply.text
    assert "default-src 'none'" in reply.headers["content-security-policy"]


async def test_the_engine_is_chosen_by_caller() -> None:
    asked: list[str] = []

    class Listening:
        async def search(self, query: Query) -> None:
            raise ERRORS_BY_CODE["empty_query"](query.text)

    def engine_for(caller: object) -> Engine:
        asked.append(type(caller).__name__)
        return cast(Engine, Listening())

    async with client(make_rest_app(cast(Engine, None), engine_for=engine_for)) as http:
        assert (await http.post("/api/v1/search", json={"query": "x"})).status_code == 422
    assert asked == ["Caller"]


async def test_a_form_that_cannot_be_parsed_is_malformed() -> None:
    async with client(make_rest_app(cast(Engine, Failing(AssertionError())))) as http:
        reply = await http.post("/api/v1/jobs", content=b"no parts", headers={"Content-Type": "multipart/form-data"})
    assert error_of(reply)["code"] == "malformed"
    assert reply.status_code == 400


class Seen:
    """Middleware that records the path of every request."""

    paths: ClassVar[list[str]] = []

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await self._app(scope, receive, send)


async def test_middleware_sees_a_request_to_every_route() -> None:
    app = make_rest_app(cast(Engine, Failing(KnowledgeError("It went wrong"))))
    app.add_middleware(Seen)
    Seen.paths.clear()
    paths = [(path, method) for path, methods in app.openapi()["paths"].items() for method in methods]
    paths += [("/health", "get"), ("/docs", "get"), ("/openapi.json", "get")]
    assert ("/api/v1/search", "post") in paths
    async with client(app) as http:
        for path, method in paths:
            reply = await http.request(method, path.replace("{", "").replace("}", ""))
            assert reply.status_code not in (404, 405), (method, path)
    assert Seen.paths == [path.replace("{", "").replace("}", "") for path, _ in paths]
