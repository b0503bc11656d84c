"""GET /map over HTTP: its shape, wrong values, and collections of others."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.model import Caller
from knowledge.surfaces.rest import make_rest_app
from tests.engine.test_maps import add_subjects


@pytest.fixture
async def http(local: LocalEngine) -> Any:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000/api/v1") as client:
        yield client


async def test_points_are_short_lists_that_refer_to_documents_and_clusters(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    await add_subjects(local.as_caller(Caller()))
    async with asyncio.timeout(60):
        while (body := (await http.get("/map")).json())["state"] == "making":
            await asyncio.sleep(0.05)
    assert body["state"] == "ready" and body["made_at"] and body["without_vectors"] == []
    for document, chunk, x, y, cluster in body["points"]:
        assert 0 <= x <= 1 and 0 <= y <= 1 and chunk >= 0
        assert cluster < len(body["clusters"]) and document < len(body["documents"])
    [place] = {document["collection"] for document in body["documents"]}
    assert body["collections"][place] | {"uid": ""} == {
        "uid": "",
        "name": "documents",
        "title": "documents",
        "count": 36,
    }
    assert set(body["clusters"][0]) == {"terms", "x", "y", "count"}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=0", 422),
        ("limit=5001", 422),
        ("limit=many", 422),
        ("collection=nowhere", 404),
        ("collection=99999", 404),
    ],
)
async def test_wrong_values_have_clear_errors(http: httpx.AsyncClient, query: str, status: int) -> None:
    answer = await http.get(f"/map?{query}")
    assert answer.status_code == status and answer.json()["error"]["message"], answer.text
