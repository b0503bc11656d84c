"""Documents, notes and collections over REST, with plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app
from knowledge.surfaces.rest.documents import file_headers

Json = dict[str, Any]
SECONDS = 20


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def note(http: httpx.AsyncClient, local: LocalEngine, text: str, **fields: object) -> int:
    job = (await http.post("/jobs", json={"note": text, **fields})).json()
    ended = await local.wait(job["job_id"], SECONDS)
    assert ended.status == "completed", ended
    assert ended.document_id is not None
    return ended.document_id


async def test_a_document_is_shown_with_its_passages(http: httpx.AsyncClient, local: LocalEngine) -> None:
    document_id = await note(
        http, local, "Tea at noon", title="Tea", tags=["hot"], collection="memory", metadata={"a": 1}
    )
    shown: Json = (await http.get(f"/documents/{document_id}")).json()
    assert (shown["id"], shown["title"], shown["kind"], shown["status"]) == (document_id, "Tea", "note", "completed")
    assert (shown["collection"], shown["tags"], shown["metadata"]) == ("memory", ["collection:memory", "hot"], {"a": 1})
    assert [(chunk["index"], chunk["text"]) for chunk in shown["chunks"]] == [(0, "Tea at noon")]
    assert shown["created_at"].endswith("Z")
    assert (await http.get(f"/documents/{shown['uid']}")).json() == shown


async def test_passages_can_be_paged(http: httpx.AsyncClient, local: LocalEngine) -> None:
    text = "\n\n".join(f"# Part {number}\n\n" + f"word{number} " * 150 for number in range(4))
    document_id = await note(http, local, text)
    everything = (await http.get(f"/documents/{document_id}")).json()["chunks"]
    assert len(everything) > 2
    part = await http.get(f"/documents/{document_id}", params={"chunk_offset": 1, "chunk_limit": 1})
    assert part.json()["chunks"] == everything[1:2]
    assert (await http.get(f"/documents/{document_id}?chunk_limit=0")).json()["chunks"] == []


async def test_the_list_is_filtered_sorted_and_paged(http: httpx.AsyncClient, local: LocalEngine) -> None:
    for name in ("alpha", "beta", "gamma"):
        name_of_collection = "memory" if name == "beta" else "documents"
        await note(
            http,
            local,
            f"{name} text",
            title=name,
            tags=[name],
            collection=name_of_collection,
            source_path=f"notes/{name}.md",
        )

    async def titles(**params: str | int) -> list[str]:
        found: Json = (await http.get("/documents", params={"sort": "title", "order": "asc", **params})).json()
        return [document["title"] for document in found["documents"]]

    assert await titles() == ["alpha", "beta", "gamma"]
    assert await titles(collection="memory") == await titles(tag="collection:memory") == ["beta"]
    assert await titles(tag="gamma") == await titles(source_path="notes/gamma.md") == ["gamma"]
    assert await titles(type="note", page=2, per_page=2) == ["gamma"]
    assert await titles(offset=1, per_page=1) == ["beta"]
    page: Json = (await http.get("/documents?per_page=2")).json()
    assert (page["total"], page["page"], page["per_page"], len(page["documents"])) == (3, 1, 2, 2)


async def test_a_document_is_changed_and_keeps_the_rest(http: httpx.AsyncClient, local: LocalEngine) -> None:
    document_id = await note(http, local, "Tea", title="Tea", metadata={"a": 1, "b": 2}, tags=["x"])
    body = {"metadata": {"a": None, "c": 3}, "collection": "memory", "url": "https://tea.example", "add_tags": ["y"]}
    changed: Json = (await http.patch(f"/documents/{document_id}", json=body)).json()
    assert (changed["title"], changed["collection"], changed["url"]) == ("Tea", "memory", "https://tea.example")
    assert changed["metadata"] == {"b": 2, "c": 3}
    assert changed["tags"] == ["collection:memory", "x", "y"]


async def test_tags_move_a_document_between_collections(http: httpx.AsyncClient, local: LocalEngine) -> None:
    document_id = await note(http, local, "Tea", tags=["x"])
    first = await http.put(f"/documents/{document_id}/tags", json={"remove": ["collection:documents"]})
    assert first.json()["collection"] == "documents"
    second = await http.put(f"/documents/{document_id}/tags", json={"add": ["collection:memory", "y"], "remove": ["x"]})
    assert second.json()["tags"] == ["collection:memory", "y"]
    third = await http.put(f"/documents/{document_id}/tags", json={"remove": ["collection:memory"]})
    assert third.json()["tags"] == ["collection:documents", "y"]
    both = await http.put(f"/documents/{document_id}/tags", json={"add": ["collection:a", "collection:b"]})
    assert both.status_code == 422


async def test_a_removed_document_is_gone(http: httpx.AsyncClient, local: LocalEngine) -> None:
    document_id = await note(http, local, "Tea")
    removed = await http.delete(f"/documents/{document_id}")
    assert removed.json()["documents"] == 1
    for path in (f"/documents/{document_id}", f"/documents/{document_id}/file"):
        reply = await http.get(path)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "document_not_found")
    assert (await http.delete(f"/documents/{document_id}")).status_code == 404


async def test_deleting_all_documents_needs_confirmation(http: httpx.AsyncClient, local: LocalEngine) -> None:
    await note(http, local, "Tea")
    refused = await http.delete("/documents")
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "confirmation_required")
    assert (await http.delete("/documents?confirm=true")).json()["documents"] == 1
    assert (await http.get("/documents")).json()["total"] == 0


async def test_the_original_comes_back_byte_for_byte(http: httpx.AsyncClient, local: LocalEngine) -> None:
    data = "Größe;Tee\r\n1;2\r\n".encode()
    sent = {"file": ("Tee & Größe.csv", data)}
    job: Json = (await http.post("/jobs", files=sent)).json()
    ended = await local.wait(job["job_id"], SECONDS)
    reply = await http.get(f"/documents/{ended.document_id}/file")
    assert reply.content == data
    assert reply.headers["content-length"] == str(len(data))
    assert reply.headers["content-disposition"].startswith("attachment; ")
    assert "filename*=UTF-8''Tee%20%26%20Gr%C3%B6%C3%9Fe.csv" in reply.headers["content-disposition"]


@pytest.mark.parametrize("name", ["a.html", "a.svg", "a.xhtml", "a.js", "a.xml", "a", "a.htm", 'x".html'])
def test_a_file_with_scripts_is_served_as_octet_stream(name: str) -> None:
    headers = file_headers(name, 1)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("name", ['a"; filename="b.exe', "a\r\nSet-Cookie: x", "a\\b", "é%41", "日本語.md"])
def test_no_filename_can_inject_a_header(name: str) -> None:
    value = file_headers(name, 1)["Content-Disposition"]
    assert value.isascii()
    assert value.isprintable()
    assert value.count('"') == 2


async def test_a_note_is_updated_in_place(http: httpx.AsyncClient, local: LocalEngine) -> None:
    document_id = await note(http, local, "User prefers long answers", collection="memory", tags=["feedback"])
    updated: Json = (await http.patch(f"/notes/{document_id}", json={"text": "User prefers bullets"})).json()
    assert (updated["id"], updated["collection"]) == (document_id, "memory")
    assert updated["tags"] == ["collection:memory", "feedback"]
    shown: Json = (await http.get(f"/documents/{document_id}")).json()
    assert [chunk["text"] for chunk in shown["chunks"]] == ["User prefers bullets"]


async def test_only_notes_are_updated(http: httpx.AsyncClient, local: LocalEngine) -> None:
    job: Json = (await http.post("/jobs", files={"file": ("tea.md", b"# Tea\n\nat noon")})).json()
    ended = await local.wait(job["job_id"], SECONDS)
    refused = await http.patch(f"/notes/{ended.document_id}", json={"text": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "not_a_note")
    assert (await http.patch("/notes/999999", json={"text": "x"})).status_code == 404


async def test_a_collection_is_created_changed_and_removed(http: httpx.AsyncClient, local: LocalEngine) -> None:
    made = await http.post("/collections", json={"title": "Tea & Milk", "description": "hot", "metadata": {"a": 1}})
    assert made.status_code == 201
    created: Json = made.json()
    assert (created["title"], created["document_count"], created["curation"]) == ("Tea & Milk", 0, None)
    await note(http, local, "Tea", collection=created["name"])
    for ref in (created["name"], created["id"], created["uid"], f"collection:{created['name']}"):
        assert (await http.get(f"/collections/{ref}")).json()["document_count"] == 1
    changed = await http.patch(f"/collections/{created['name']}", json={"description": "cold"})
    assert changed.json()["description"] == "cold"
    listed: Json = (await http.get("/collections")).json()
    assert created["name"] in [collection["name"] for collection in listed["collections"]]
    assert (await http.delete(f"/collections/{created['name']}")).json()["documents"] == 1
    gone = await http.get(f"/collections/{created['name']}")
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "collection_not_found")


async def test_a_name_that_could_be_taken_for_a_number_is_refused(http: httpx.AsyncClient) -> None:
    refused = await http.post("/collections", json={"name": "2024"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_name")
    made: Json = (await http.post("/collections", json={"title": "2024"})).json()
    assert (await http.get(f"/collections/{made['name']}")).json()["title"] == "2024"
    assert (await http.get("/collections/2024")).status_code == 404


async def test_a_name_that_is_taken_is_refused(http: httpx.AsyncClient) -> None:
    await http.post("/collections", json={"name": "tea"})
    again = await http.post("/collections", json={"name": "tea"})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "name_taken")


async def test_the_status_has_the_fields_that_clients_read(http: httpx.AsyncClient, local: LocalEngine) -> None:
    await note(http, local, "Tea")
    status: Json = (await http.get("/status")).json()
    assert {
        "version",
        "uptime_seconds",
        "model",
        "documents",
        "chunks",
        "collections",
        "queue",
        "storage",
        "health",
        "processes",
    } <= set(status)
    assert status["processes"]["server_bytes"] > 1 << 20
    assert set(status["processes"]) == {"server_bytes", "children", "children_bytes"}
    assert set(status["queue"]) == {"queued", "processing", "failed"}
    assert (status["documents"], status["chunks"], status["health"]["status"]) == (1, 1, "healthy")


async def test_verify_and_reindex_answer_when_they_are_done(http: httpx.AsyncClient, local: LocalEngine) -> None:
    await note(http, local, "Tea")
    assert (await http.post("/reindex")).json() == {"status": "done"}
    assert (await http.post("/verify")).json() == {"clean": True, "findings": []}
