"""Contract 001: rate limits and their headers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import ENDPOINT, STREAM, Person, make_person, read_refusal
from tests.support.accounts import PASSWORD

MESSAGE = "Rate limit exceeded. Please slow down and try again."
REFUSED = (429, "rate_limit.exceeded", MESSAGE)


@asynccontextmanager
async def limited(local: LocalEngine, settings: Settings, **given: str) -> AsyncIterator[Person]:
    """Serve with the given limits and yield an account."""
    async with serve_app(make_http_app(local, settings.model_copy(update=given))) as url:
        yield await make_person(local, url)


def left(answer: httpx.Response) -> list[int]:
    return [int(answer.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining")]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.requirement("001.limits.headers")
@pytest.mark.requirement("001.limits.refused")
@pytest.mark.requirement("001.limits.query")
async def test_queries_are_limited_and_every_response_has_the_remaining_count(
    local: LocalEngine, settings: Settings
) -> None:
    async with limited(local, settings, mcp_query_rate_limit="3/minute") as ada:
        answers = [await ada.post("tools/call", call("query_knowledge", query="tea")) for _ in range(2)]
        answers.append(await ada.post("tools/call", call("query_corpus", corpus_id=1, query="tea")))
        assert [left(answer) for answer in answers] == [[3, 2], [3, 1], [3, 0]], "a refused call counts too"
        refused = await ada.post("tools/call", call("query_knowledge", query="tea"))
        assert read_refusal(refused) == REFUSED
        assert left(refused) == [3, 0] and 1 <= int(refused.headers["retry-after"]) <= 60
        assert int(refused.headers["x-ratelimit-reset"]) == int(answers[0].headers["x-ratelimit-reset"])
        async with ada.http() as http:
            streamed = await http.post(STREAM, json={"query": "tea"})
        assert (streamed.status_code, streamed.headers["x-mcp-error-code"]) == REFUSED[:2]
        assert json.loads(streamed.text.removeprefix("data: "))["type"] == "error"
        assert "retry-after" in streamed.headers and left(streamed) == [3, 0]
        assert (await ada.post("tools/call", call("list_collections"))).status_code == 200


@pytest.mark.requirement("001.limits.list")
@pytest.mark.requirement("001.limits.resource")
async def test_listing_and_reading_have_limits_of_their_own(local: LocalEngine, settings: Settings) -> None:
    given = {"mcp_list_rate_limit": "2/minute", "mcp_resource_rate_limit": "1/minute"}
    async with limited(local, settings, **given) as ada:
        corpus = await ada.create_corpus("Teas")
        assert left(await ada.post("tools/call", call("list_collections"))) == [2, 1]
        assert left(await ada.post("tools/call", call("list_corpuses"))) == [2, 0]
        assert read_refusal(await ada.post("tools/call", call("list_corpuses"))) == REFUSED
        reading = {"uri": f"corpus://{corpus.id}"}
        assert left(await ada.post("resources/read", reading)) == [1, 0]
        assert read_refusal(await ada.post("resources/read", reading)) == REFUSED


@pytest.mark.requirement("001.limits.authentication")
async def test_unauthenticated_requests_are_limited_with_the_contracts_code(
    local: LocalEngine, settings: Settings
) -> None:
    async with limited(local, settings, auth_rate_limit="2/minute") as ada, httpx.AsyncClient(base_url=ada.url) as http:
        given = {"username": "eve", "password": PASSWORD}
        assert left(await http.post("/api/v1/user/register", json=given)) == [2, 1]
        wrong = await http.post(ENDPOINT, json={}, headers={"x-api-key": "kn_nobody_atall"})
        assert (wrong.status_code, wrong.headers["x-mcp-error-code"], left(wrong)) == (
            401,
            "auth.invalid_api_key",
            [2, 0],
        )
        for path in ("/api/v1/user/login", ENDPOINT, STREAM):
            refused = await http.post(path, json=given)
            assert (refused.status_code, refused.headers["x-mcp-error-code"]) == REFUSED[:2], path
            assert "retry-after" in refused.headers
        assert (await ada.post("tools/call", call("list_corpuses"))).status_code == 200
