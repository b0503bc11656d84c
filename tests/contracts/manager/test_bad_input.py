"""Fuzzing of contract 001's endpoints: every input gets its error, no data is lost, and the server keeps running."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.contracts.manager.conftest import ENDPOINT, STREAM, Person, read_refusal
from tests.contracts.manager.test_stream import post_query, read_events, stream_events
from tests.contracts.test_bad_input import few, texts, values
from tests.contracts.transports import WAIT_SECONDS

HOSTILE = [
    "x'; DROP TABLE collections; --",
    '" OR "1"="1',
    "Robert'); DELETE FROM documents WHERE ('a'='a",
    "%s%s%n",
    "${jndi:ldap://example.org/a}",
    "<script>alert(1)</script>",
    "\u202eevil",
    "💣" * 90,
]


@pytest.fixture
async def settled(ada: Person) -> Person:
    await ada.add_note("Tea is served at five.", "docs")
    return ada


async def check_unchanged(who: Person) -> None:
    """Check that the note is still there."""
    assert (await who.call("query_knowledge", query="tea"))["num_results"] == 1
    [collection] = (await who.call("list_collections"))["collections"]
    assert (collection["name"], collection["num_chunks"]) == ("docs", 1)


@pytest.mark.requirement("001.errors.bad_input")
@pytest.mark.parametrize("name", HOSTILE)
async def test_an_injection_in_a_collection_name_does_no_harm(settled: Person, name: str) -> None:
    status, code, _ = await settled.call_refused("query_knowledge", query="tea", collections=[name])
    assert (status, code) in [(404, "resource.collection_not_found"), (422, "validation.invalid_collection_name")]
    told = read_events(await post_query(settled, {"query": "tea", "collections": ["docs", name]}))
    assert told[-1]["type"] in ("done", "error")
    found = await settled.post("tools/call", {"name": "query_knowledge", "arguments": {"query": name}})
    assert found.status_code in (200, 422)
    await check_unchanged(settled)


@pytest.mark.requirement("001.errors.bad_input")
async def test_huge_requests_are_refused(settled: Person) -> None:
    status, code, message = await settled.call_refused("query_knowledge", query="tea " * 500_000)
    assert (status, code) == (422, "validation.invalid_parameter") and len(message) < 200
    async with settled.http() as http:
        answer = await http.post(ENDPOINT, content=b" " * (5 << 20), headers={"content-type": "application/json"})
        assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (413, "file.too_large")
        assert answer.json()["error"]["data"]["http_status"] == 413
    status, code, _ = await settled.call_refused("query_knowledge", query="tea", collections=["x" * 1_000_000])
    assert (status, code) == (422, "validation.invalid_collection_name")
    await check_unchanged(settled)


@pytest.mark.requirement("001.errors.bad_input")
async def test_ids_of_other_accounts_are_not_found(settled: Person, bob: Person) -> None:
    await bob.add_note("Bob's tea is in the cellar.", "cellar")
    cellar = await bob.engine.collection("cellar")
    for name in (str(cellar.id), str(cellar.uid)):
        status, code, _ = await settled.call_refused("query_knowledge", query="tea", collections=[name])
        assert (status, code) == (404, "resource.collection_not_found")
        told = await stream_events(settled, query="tea", collections=[name])
        assert [one["type"] for one in told] == ["metadata", "collection_error", "done"]
    assert read_refusal(await settled.post("resources/read", {"uri": f"corpus://{cellar.id}"}))[0] == 404
    assert (await settled.call_refused("query_corpus", corpus_id=cellar.id, query="tea"))[0] == 404


@pytest.fixture
def http(settled: Person) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=settled.url, headers={"X-API-Key": settled.key}, timeout=WAIT_SECONDS) as client:
        yield client


@pytest.mark.requirement("001.errors.bad_input")
def test_any_body_of_a_stream_is_answered_by_events(http: httpx.Client) -> None:
    bodies = values | some.fixed_dictionaries(
        {},
        optional={"query": texts | values, "collections": some.lists(texts, max_size=3) | values, "n_results": values},
    )  # fmt: skip

    @few
    @given(body=bodies)
    def attempt(body: Any) -> None:
        answer = http.post(STREAM, content=json.dumps(body), headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400, 422)
        told = read_events(answer)
        assert told[-1]["type"] == ("done" if answer.status_code == 200 else "error")
        assert answer.status_code == 200 or [one["error_code"] for one in told] == [answer.headers["x-mcp-error-code"]]

    attempt()


@pytest.mark.requirement("001.errors.bad_input")
def test_any_request_at_the_endpoint_is_answered(http: httpx.Client) -> None:
    methods = some.sampled_from(["tools/list", "tools/call", "resources/list", "resources/read", "nothing"])
    params = some.fixed_dictionaries(
        {},
        optional={
            "name": some.sampled_from(["query_knowledge", "query_corpus"]) | values, "arguments": values, "uri": texts,
        },
    )  # fmt: skip

    @few
    @given(method=methods | values, params=params | values)
    def attempt(method: Any, params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = http.post(ENDPOINT, content=json.dumps(message), headers={"content-type": "application/json"})
        assert answer.status_code < 500, answer.text
        assert "result" in answer.json() or "error" in answer.json()

    attempt()
