"""Deeply nested JSON, huge numbers and invalid characters are refused and never cause a 500."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app
from tests.support.engines import add_note

Json = dict[str, Any]

DEEP = 100_000
VALUES = {
    "deep list": "[" * 2_000 + "]" * 2_000,
    "deep object": '{"a":' * 2_000 + "1" + "}" * 2_000,
    "deeper than any parser goes": "[" * DEEP + "]" * DEEP,
    "integer of 10,000 digits": "9" * 10_000,
    "integer beyond 64 bits": "-18446744073709551617",
    "number beyond a float": "1e99999",
    "number that is none": "NaN",
    "half a surrogate pair": '"\\ud800"',
    "half a pair in a list": '["\\udfff"]',
    "half a pair as a key": '{"\\ud83d": "\\ude00\\ud800"}',
}
IDENTIFIER = "1"


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    await add_note(local, "The harbour is open")
    transport = httpx.ASGITransport(app=make_rest_app(local), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as made:
        yield made


def bodies(api: Json) -> Iterator[tuple[str, str, str]]:
    """Yield every route that takes JSON with each of its fields."""
    for path, methods in api["paths"].items():
        for method, call in methods.items():
            content = call.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                for name in _fields(content["application/json"]["schema"], api):
                    yield method.upper(), path.replace("{id}", IDENTIFIER), name


def _fields(schema: Json, api: Json) -> list[str]:
    if "$ref" in schema:
        return _fields(api["components"]["schemas"][schema["$ref"].rpartition("/")[2]], api)
    inner = [field for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())) for field in _fields(one, api)]
    return [*schema.get("properties", {}), *inner]


@pytest.mark.parametrize("kind", VALUES)
async def test_a_hostile_value_in_any_field_is_refused(http: httpx.AsyncClient, kind: str) -> None:
    api = (await http.get("/openapi.json")).json()
    calls = [(method, path, name) for method, path, name in bodies(api) if "{" not in path]
    assert len(calls) > 30
    failed = []
    for method, path, name in calls:
        given = f'{{"{name}": {VALUES[kind]}}}'.encode()
        reply = await http.request(method, path, content=given, headers={"Content-Type": "application/json"})
        if not 400 <= reply.status_code < 500 or "x-mcp-error-code" not in reply.headers:
            failed.append((method, path, name, reply.status_code, reply.text[:200]))
    assert not failed


@pytest.mark.parametrize("kind", sorted(VALUES.keys() - {"integer beyond 64 bits"}))
async def test_hostile_metadata_of_an_upload_is_refused(http: httpx.AsyncClient, kind: str) -> None:
    data = {"metadata": f'{{"a": {VALUES[kind]}}}'}
    reply = await http.post("/api/v1/jobs", files={"file": ("a.txt", b"words")}, data=data)
    assert 400 <= reply.status_code < 500, reply.text


async def test_a_deeply_nested_query_is_answered(http: httpx.AsyncClient) -> None:
    reply = await http.post("/api/v1/search", json={"query": "1.1'" * 2_000})
    assert reply.status_code == 200, reply.text
