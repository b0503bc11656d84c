"""Answers are compressed where that helps and reveals nothing, and are never cached."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.remote.http import open_http_client
from knowledge.model import NewNote
from knowledge.surfaces.http.app import make_http_app
from tests.support.accounts import PASSWORD
from tests.support.engines import wait_until_done

TEXT = "The harbour master keeps a ledger of every ship that arrives with the tide. " * 40


@pytest.fixture
async def http(local: LocalEngine, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    await wait_until_done(local, await local.add(NewNote(text=TEXT)))
    transport = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        yield client


@pytest.mark.parametrize("path", ["/api/v1/documents/1", "/docs/docs.js", "/openapi.json"])
async def test_a_large_text_is_compressed_for_a_client_that_accepts_it(http: httpx.AsyncClient, path: str) -> None:
    plain = await http.get(path, headers={"accept-encoding": "identity"})
    small = await http.get(path, headers={"accept-encoding": "gzip, br"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert int(small.headers["content-length"]) < len(plain.content) / 2
    assert small.content == plain.content, "httpx has decompressed it"
    assert {plain.headers["vary"], small.headers["vary"]} == {"Accept-Encoding"}


@pytest.mark.parametrize("accepted", ["", "identity", "br", "gzip;q=0", "gzip; q=0.0, identity"])
async def test_a_client_that_does_not_accept_gzip_gets_plain_text(http: httpx.AsyncClient, accepted: str) -> None:
    reply = await http.get("/api/v1/documents/1", headers={"accept-encoding": accepted})
    assert "content-encoding" not in reply.headers and TEXT[:70] in reply.text


async def test_a_small_answer_is_not_compressed(http: httpx.AsyncClient) -> None:
    reply = await http.get("/api/v1/health", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in reply.headers


async def test_answers_with_secrets_are_not_compressed(http: httpx.AsyncClient) -> None:
    """The length of a compressed secret beside a chosen text reveals the secret (BREACH)."""
    long_name = "a" * 64
    login = {"username": long_name, "password": PASSWORD}
    accept = {"accept-encoding": "gzip"}
    await http.post("/api/v1/user/register", json=login)
    key = await http.post("/api/v1/user/login", json=login, headers=accept)
    account = {**accept, "x-api-key": key.json()["api_key"]}
    for _ in range(8):
        await http.post("/api/v1/user/api-keys", json={"name": "k" * 100}, headers=account)
    replies = [
        key,
        await http.post("/api/v1/user/api-keys", json={"name": "k" * 100}, headers=account),
        await http.get("/api/v1/user/api-keys", headers=account),
        await http.post(f"/api/v1/admin/users/{long_name}/api-keys", json={}, headers=accept),
        await http.get("/api/v1/session", headers=accept),
    ]
    assert [reply.is_success for reply in replies] == [True] * 5
    assert max(len(reply.content) for reply in replies) > 1024
    assert not any("content-encoding" in reply.headers for reply in replies)


async def test_an_original_keeps_its_length_and_its_bytes(http: httpx.AsyncClient) -> None:
    reply = await http.get("/api/v1/documents/1/file", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in reply.headers
    assert int(reply.headers["content-length"]) == len(TEXT.encode()) and reply.text == TEXT


async def test_a_backup_is_not_compressed_again(http: httpx.AsyncClient) -> None:
    backup = await http.get("/api/v1/backup", headers={"accept-encoding": "gzip"})
    assert backup.status_code == 200 and "content-encoding" not in backup.headers


async def test_an_event_stream_is_not_compressed(http: httpx.AsyncClient) -> None:
    login = {"username": "ada", "password": PASSWORD}
    await http.post("/api/v1/user/register", json=login)
    key = (await http.post("/api/v1/user/login", json=login)).json()["api_key"]
    headers = {"accept-encoding": "gzip", "x-api-key": key}
    reply = await http.post("/api/v1/mcp/query/stream", json={"query": "harbour"}, headers=headers)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.status_code == 200 and "content-encoding" not in reply.headers


async def test_processes_of_one_machine_do_not_compress_their_calls() -> None:
    async with open_http_client("http://127.0.0.1:1") as near, open_http_client("http://engine.example") as far:
        assert near.headers["accept-encoding"] == "identity"
        assert "gzip" in far.headers["accept-encoding"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/documents"), ("GET", "/api/v1/documents/99"), ("GET", "/api/v1/nowhere"),
     ("GET", "/api/v1/health"), ("POST", "/api/v1/search"), ("GET", "/api/v1/session"),
     ("GET", "/api/v1/documents/1/file"), ("POST", "/mcp")],
)  # fmt: skip
async def test_answers_of_the_api_are_not_cached(http: httpx.AsyncClient, method: str, path: str) -> None:
    reply = await http.request(method, path)
    assert reply.headers["cache-control"] == "no-store"


async def test_a_refusal_is_not_cached(http: httpx.AsyncClient) -> None:
    refused = await http.get("/api/v1/documents", headers={"sec-fetch-site": "cross-site"})
    assert refused.status_code == 403 and refused.headers["cache-control"] == "no-store"
