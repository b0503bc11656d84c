"""Search over REST."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.model import NewNote
from knowledge.surfaces.rest import make_rest_app

Json = dict[str, Any]


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    for text, collection, tags in (
        ("Green tea is brewed at eighty degrees", "documents", ("hot",)),
        ("Milk is kept in the cold", "memory", ("cold",)),
        ("Tea with milk is drunk at four", "memory", ("hot", "cold")),
    ):
        job = await local.add(NewNote(text=text, collection=collection, tags=tags, source_path=f"{text[:4]}.md"))
        assert (await local.wait(job.id, 20)).status == "completed"
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def search_texts(http: httpx.AsyncClient, **body: object) -> list[str]:
    reply = await http.post("/search", json=body)
    assert reply.status_code == 200, reply.text
    return sorted(hit["text"].split()[0] for hit in reply.json()["results"])


async def test_an_answer_has_the_fields_that_clients_read(http: httpx.AsyncClient) -> None:
    answer: Json = (await http.post("/search", json={"query": "green tea", "top": 1})).json()
    assert (answer["query"], answer["returned"], len(answer["results"])) == ("green tea", 1, 1)
    assert answer["total_matches"] >= 1
    hit = answer["results"][0]
    assert set(hit) >= {
        *("chunk_id", "document_id", "score", "text", "chunk_index", "chunk_metadata"),
        *("title", "doc_type", "source_path", "created_at", "tags"),
    }
    assert set(hit["chunk_metadata"]) >= {"page", "section_header"}
    assert hit["text"].startswith("Green tea")
    assert hit["tags"] == ["collection:documents", "hot"]
    assert 0 < hit["score"] <= 1


async def test_filters_narrow_what_is_found(http: httpx.AsyncClient) -> None:
    assert await search_texts(http, query="tea milk") == ["Green", "Milk", "Tea"]
    assert await search_texts(http, query="tea milk", collection="memory") == ["Milk", "Tea"]
    assert await search_texts(http, query="tea milk", tags=["collection:memory", "hot"]) == ["Tea"]
    assert await search_texts(http, query="tea milk", collections=["memory", "documents"], tags=["hot"]) == [
        "Green",
        "Tea",
    ]
    assert await search_texts(http, query="tea milk", doc_type="pdf") == []
    assert await search_texts(http, query="tea milk", date_to="2001-01-01") == []
    assert await search_texts(http, query="tea milk", date_from="2001-01-01") == ["Green", "Milk", "Tea"]
    assert await search_texts(http, query="tea milk", threshold=0.999) != ["Green", "Milk", "Tea"]


async def test_each_mode_answers_with_its_name(http: httpx.AsyncClient) -> None:
    for body, mode in (({"fts_only": True}, "text"), ({"vec_only": True}, "vector"), ({"mode": "hybrid"}, "hybrid")):
        answer: Json = (await http.post("/search", json={"query": "green tea", **body})).json()
        assert (answer["mode"], answer["results"][0]["text"].split()[0]) == (mode, "Green")


async def test_pages_follow_each_other_without_repeats(http: httpx.AsyncClient) -> None:
    pages = [await search_texts(http, query="tea milk", top=1, offset=offset) for offset in range(4)]
    assert sorted(word for page in pages for word in page) == ["Green", "Milk", "Tea"]


async def test_explain_adds_an_explanation(http: httpx.AsyncClient) -> None:
    plain: Json = (await http.post("/search", json={"query": "tea"})).json()
    explained: Json = (await http.post("/search", json={"query": "tea", "explain": True})).json()
    assert plain["results"][0]["explanation"] is None
    assert explained["results"][0]["explanation"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_parameter"),
        ({"query": ""}, "empty_query"),
        ({"query": "tea", "top": 0}, "invalid_parameter"),
        ({"query": "tea", "top": 101}, "invalid_parameter"),
        ({"query": "tea", "top": "5"}, "invalid_parameter"),
        ({"query": "tea", "offset": -1}, "invalid_parameter"),
        ({"query": "tea", "offset": 1001}, "invalid_parameter"),
        ({"query": "tea", "threshold": 1.5}, "invalid_parameter"),
        ({"query": "tea", "mode": "magic"}, "invalid_parameter"),
        ({"query": "tea", "tags": "hot"}, "invalid_parameter"),
        ({"query": "tea", "tags": ["hot", 7]}, "invalid_parameter"),
        ({"query": "tea", "document_id": 2**63}, "invalid_parameter"),
        ({"query": "tea", "document_id": "x"}, "invalid_parameter"),
        ({"query": "tea", "date_from": "soon"}, "invalid_parameter"),
        ({"query": "tea", "limit": 5}, "unknown_parameter"),
        ({"query": "tea", "fts_only": True, "vec_only": True}, "invalid"),
    ],
)
async def test_an_invalid_search_is_refused(http: httpx.AsyncClient, body: Json, code: str) -> None:
    reply = await http.post("/search", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, code)
    assert reply.json()["error"]["hint"]


async def test_an_unknown_field_is_reported_with_the_known_ones(http: httpx.AsyncClient) -> None:
    error = (await http.post("/search", json={"query": "tea", "limit": 5})).json()["error"]
    assert "limit" in error["message"]
    assert "top" in error["details"]["valid"]


async def test_an_unknown_collection_or_document_is_not_found(http: httpx.AsyncClient) -> None:
    for body, code in (
        ({"collection": "nowhere"}, "collection_not_found"),
        ({"document_id": 999}, "document_not_found"),
    ):
        reply = await http.post("/search", json={"query": "tea", **body})
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, code)


async def test_a_plain_answer_has_no_field_of_details(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/search", json={"query": "green"})).json()
    assert [*answer] == ["query", "results", "total_matches", "returned", "mode", "notes", "explanation"]
    assert "highlights" not in answer["results"][0]


async def test_an_answer_has_highlights_and_facets_if_asked_for(http: httpx.AsyncClient) -> None:
    body = {"query": "green tea bre", "typing": True, "highlight": True, "facets": ["doc_type", "collection"], "top": 1}
    answer = (await http.post("/search", json=body)).json()
    assert answer["results"][0]["highlights"] == [[0, 5], [6, 9], [13, 19]]
    assert answer["facets"]["doc_type"] == [{"value": "note", "count": answer["total_matches"]}]
    assert {"value": "documents", "count": 1, "title": "documents"} in answer["facets"]["collection"]
    assert answer["exhaustive"] is False and answer["relevant"] >= 1 and answer["unknown_words"] == []
    refused = await http.post("/search", json={"query": "tea", "facets": ["owner"]})
    assert refused.status_code == 422
