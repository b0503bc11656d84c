"""Changes to many documents, similar documents, and ETag with If-Match, with plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app
from tests.support.engines import add_note


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def test_if_match_names_the_state_that_was_read(http: httpx.AsyncClient, local: LocalEngine) -> None:
    note = await add_note(local, "first", title="Plan")
    etag = (await http.get(f"/documents/{note.id}")).headers["etag"]
    edited = await http.patch(f"/documents/{note.id}", json={"add_tags": ["tea"]}, headers={"If-Match": etag})
    assert edited.status_code == 200 and edited.headers["etag"] != etag
    for path, body in ((f"/documents/{note.id}", {"title": "Lost"}), (f"/notes/{note.id}", {"text": "lost"})):
        for stale in (etag, f"W/{edited.headers['etag']}"):
            refused = await http.patch(path, json=body, headers={"If-Match": stale})
            assert (refused.status_code, refused.json()["error"]["code"]) == (412, "document_changed")
    updated = await http.patch(
        f"/notes/{note.id}", json={"text": "second"}, headers={"If-Match": edited.headers["etag"]}
    )
    assert updated.status_code == 200, updated.text
    assert updated.headers["etag"] == (await http.get(f"/documents/{note.id}")).headers["etag"]
    anyhow = await http.patch(f"/notes/{note.id}", json={"text": "third"}, headers={"If-Match": "*"})
    assert anyhow.status_code == 200


async def test_a_batch_says_what_it_would_delete_and_what_is_wrong_with_it(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    note = await add_note(local, "the kettle boils", title="Kettle")
    await add_note(local, "a boat on the lake", title="Boat")
    asked = await http.post("/documents/batch", json={"filter": {"q": "kettle"}, "remove": True})
    assert asked.status_code == 422 and asked.json()["error"]["code"] == "confirmation_required"
    assert asked.json()["error"]["details"] == {"documents": 1, "chunks": 1}
    tagged = await http.post("/documents/batch", json={"ids": [str(note.uid), 10**9], "add_tags": ["tea"]})
    assert tagged.json() | {"failures": []} == {"selected": 2, "done": 1, "failed": 1, "failures": [], "chunks": 0}
    assert [failure["code"] for failure in tagged.json()["failures"]] == ["document_not_found"]
    gone = await http.post("/documents/batch", json={"filter": {"tag": "tea"}, "remove": True, "confirm": 1})
    assert (gone.json()["done"], gone.json()["chunks"]) == (1, 1)
    for wrong in (
        {"add_tags": ["tea"]},
        {"ids": [1], "filter": {}, "add_tags": ["tea"]},
        {"ids": [1]},
        {"ids": [1], "remove": True, "confirm": 1, "add_tags": ["tea"]},
        {"ids": [1], "remove_tags": ["collection:documents"]},
        {"ids": ["no-id"], "add_tags": ["tea"]},
        {"filter": {"colour": "red"}, "add_tags": ["tea"]},
    ):
        answer = await http.post("/documents/batch", json=wrong)
        assert answer.status_code == 422 and answer.json()["error"]["message"], wrong


async def test_similar_documents_are_listed_with_their_passage(http: httpx.AsyncClient, local: LocalEngine) -> None:
    kettle = await add_note(local, "a copper kettle boils water", title="Kettle")
    near = await add_note(local, "water boils in a kettle of copper", title="Tea")
    found = (await http.get(f"/documents/{kettle.uid}/similar", params={"top": 1})).json()["results"]
    assert [hit["document_id"] for hit in found] == [near.id]
    assert (await http.get(f"/documents/{kettle.uid}/similar", params={"top": 0})).status_code == 422
    assert (await http.get(f"/documents/{10**9}/similar")).status_code == 404
