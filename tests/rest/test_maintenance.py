"""The REST side of maintenance jobs, reviews, key rotation and usage, as an admin and as accounts see it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from tests.support.accounts import ADMIN, create_corpus, register
from tests.support.engines import add_note


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with an admin; without a key it is the local owner."""
    app = make_http_app(local, Settings(data=local._parts.options.data, admin_users=ADMIN, query_rate_limit="7/minute"))
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 5000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000/api/v1") as opened:
        yield opened


async def make_key(local: LocalEngine, username: str) -> dict[str, str]:
    account = await register(local, username)
    return {"X-API-Key": (await account.accounts.create_key("laptop")).secret}


async def test_a_check_answers_its_job_and_a_backup_is_the_operators(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    root, ada = await make_key(local, ADMIN), await make_key(local, "ada")
    started = await http.post("/maintenance/verify", headers=root)
    assert started.status_code == 202 and started.json()["kind"] == "verify"
    assert (await http.post("/maintenance/verify", headers=ada)).status_code == 403
    for method, path in (("POST", "/maintenance/backup"), ("GET", "/maintenance/backup/1")):
        refused = await http.request(method, path, headers=root)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "admin_required")
    assert (await http.get("/maintenance/backup/4000")).status_code == 404


async def test_the_usage_shows_the_quota_and_the_rate_limits_of_the_caller(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    ada, bob = await make_key(local, "ada"), await make_key(local, "bob")
    for _ in range(3):
        assert (await http.post("/search", json={"query": "tea"}, headers=ada)).is_success
    shown = (await http.get("/user/usage", headers=ada)).json()
    assert (shown["documents"], shown["max_documents"]) == (0, None)
    limits = {each["name"]: (each["used"], each["limit"], each["seconds"]) for each in shown["rate_limits"]}
    assert limits["query"] == (3, 7, 60) and limits["list"] == (1, 7, 60) and "authentication" not in limits
    others = (await http.get("/user/usage", headers=bob)).json()["rate_limits"]
    assert {each["name"]: each["used"] for each in others}["query"] == 0
    assert (await http.get("/user/usage")).status_code == 404  # the local owner has no account


async def test_a_rotated_key_is_shown_once_and_not_compressed(http: httpx.AsyncClient, local: LocalEngine) -> None:
    ada = await make_key(local, "ada")
    keys = (await http.get("/user/api-keys", headers=ada)).json()["api_keys"]
    laptop = next(key["id"] for key in keys if key["name"] == "laptop")
    rotated = await http.post(f"/user/api-keys/{laptop}/rotate", headers=ada)
    assert rotated.json()["api_key"].startswith(rotated.json()["prefix"])
    assert "content-encoding" not in rotated.headers
    assert (await http.get("/user", headers=ada)).status_code == 401
    assert (await http.get("/user", headers={"X-API-Key": rotated.json()["api_key"]})).json()["username"] == "ada"


async def test_an_admin_reviews_and_declines_over_http(http: httpx.AsyncClient, local: LocalEngine) -> None:
    root = await make_key(local, ADMIN)
    ada = await register(local, "ada")
    corpus = await create_corpus(ada, "Gates", public=True)
    note = await add_note(ada, "the garden gate", title="Gate", collection=corpus.id)
    path = f"/admin/corpuses/{corpus.id}"
    assert [each["title"] for each in (await http.get(f"{path}/documents", headers=root)).json()["documents"]] == [
        "Gate"
    ]
    read = (await http.get(f"{path}/documents/{note.uid}", params={"chunk_limit": 1}, headers=root)).json()
    assert [chunk["text"] for chunk in read["chunks"]] == ["the garden gate"]
    long = await http.post(f"{path}/decline", json={"reason": "x" * 501}, headers=root)
    assert long.status_code == 422 and "reason" in long.json()["error"]["message"]
    declined = await http.post(f"{path}/decline", json={"reason": "Name the sources."}, headers=root)
    assert (declined.json()["is_public"], declined.json()["declined"]) == (False, "Name the sources.")
    assert (await http.get(f"{path}/documents", headers=root)).status_code == 404
