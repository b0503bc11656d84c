"""Accounts and corpora over REST: the calls of contract 001, its shapes, and its refusals."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Content, JobFilter, Json, NewFile, Scope, new_uid
from knowledge.store.accounts.quotas import Quota
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.guard import wrap_in_guard
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.accounts import ADMIN, PASSWORD, register
from tests.support.engines import WAIT_SECONDS, wait_until_done

Join = Callable[[str], Awaitable[httpx.AsyncClient]]
OPERATOR = {"X-API-Key": "operator"}


@pytest.fixture
async def http(local: LocalEngine, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client without a key."""
    locked = settings.model_copy(update={"api_key": SecretStr("operator")})
    app = wrap_in_guard(
        make_rest_app(local, max_file_bytes=1 << 20),
        locked,
        Authenticator.from_settings(locked, local.accounts.find_by_key),
    )
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000/api/v1") as client:
        yield client


@pytest.fixture
def join(http: httpx.AsyncClient) -> Join:
    async def register_client(username: str) -> httpx.AsyncClient:
        """Register a user and return an HTTP client with their key."""
        given = {"username": username, "password": PASSWORD}
        if username == ADMIN:
            await http.post("/admin/users", json=given, headers=OPERATOR)
        else:
            await http.post("/user/register", json=given)
        key = (await http.post("/user/login", json=given)).json()["api_key"]
        return httpx.AsyncClient(transport=http._transport, base_url=http.base_url, headers={"X-API-Key": key})

    return register_client


def code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


async def wait_for_job(local: LocalEngine, http: httpx.AsyncClient, accepted: httpx.Response) -> Json:
    assert accepted.status_code == 202, accepted.text
    address = f"/jobs/{accepted.json()['job_id']}"
    starter = Scope((await http.get(address)).json()["owner"])
    await local.with_scope(starter).wait(accepted.json()["job_id"], WAIT_SECONDS)
    job: Json = (await http.get(address)).json()
    return job


async def test_registering_and_logging_in_need_no_key(http: httpx.AsyncClient) -> None:
    given = {"username": "ada", "password": PASSWORD}
    made = await http.post("/user/register", json=given)
    assert made.status_code == 201
    assert {"id", "username", "created_at"} <= set(made.json())
    assert code(await http.post("/user/register", json=given)) == (409, "account_taken")
    logged_in = await http.post("/user/login", json=given)
    assert logged_in.status_code == 200
    assert logged_in.json()["username"] == "ada"
    expires = datetime.fromisoformat(logged_in.json()["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < expires <= timedelta(days=90)
    assert (await http.get("/user")).status_code == 401
    mine = await http.get("/user", headers={"Authorization": f"Bearer {logged_in.json()['api_key']}"})
    assert mine.json()["username"] == "ada"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, "missing_parameter"),
        ({"username": "ada"}, "missing_parameter"),
        ({"username": 5, "password": PASSWORD}, "invalid_parameter"),
        ({"username": "ada", "password": "short"}, "invalid_parameter"),
        ({"username": "ada", "password": PASSWORD, "is_admin": True}, "unknown_parameter"),
        ({"username": "x" * 100_000, "password": PASSWORD}, "invalid_parameter"),
    ],
)
async def test_an_invalid_registration_is_refused_with_its_code(
    http: httpx.AsyncClient, body: Json, expected: str
) -> None:
    assert code(await http.post("/user/register", json=body)) == (422, expected)


async def test_keys_are_listed_without_their_secrets(join: Join) -> None:
    ada = await join("ada")
    made = await ada.post("/user/api-keys", json={"name": "laptop", "expires_at": "2099-12-31"})
    assert made.status_code == 201
    assert {"id", "name", "api_key", "expires_at"} <= set(made.json())
    listed = (await ada.get("/user/api-keys")).json()["api_keys"]
    assert [key["name"] for key in listed] == ["login", "laptop"]
    assert set(listed[0]) == {"id", "name", "prefix", "created_at", "expires_at", "last_used_at"}
    assert listed[1]["expires_at"].startswith("2099-12-31T23:59:59")
    assert (await ada.delete(f"/user/api-keys/{made.json()['id']}")).status_code == 200
    assert code(await ada.get("/user", headers={"X-API-Key": made.json()["api_key"]})) == (401, "invalid_key")
    assert code(await ada.delete("/user/api-keys/99")) == (404, "key_not_found")
    assert code(await ada.post("/user/api-keys", json={"expires_at": "2001-01-01"})) == (422, "invalid_parameter")
    assert code(await ada.post("/user/api-keys", json={"expires_at": "soon"})) == (422, "invalid_parameter")


async def test_a_password_is_changed_and_an_account_deleted_with_the_old_one(
    http: httpx.AsyncClient, join: Join
) -> None:
    ada = await join("ada")
    change = {"old_password": "wrong horse", "new_password": "another staple"}
    assert code(await ada.put("/user/password", json=change)) == (401, "wrong_password")
    assert (await ada.put("/user/password", json={**change, "old_password": PASSWORD})).status_code == 200
    assert code(await ada.get("/user")) == (401, "invalid_key"), "the key of a login from before"
    again = await http.post("/user/login", json={"username": "ada", "password": "another staple"})
    ada.headers["X-API-Key"] = again.json()["api_key"]
    assert code(await ada.request("DELETE", "/user", json={"password": PASSWORD})) == (401, "wrong_password")
    assert (await ada.request("DELETE", "/user", json={"password": "another staple"})).status_code == 200
    assert code(await ada.get("/user")) == (401, "invalid_key")
    assert code(await http.post("/user/login", json={"username": "ada", "password": "another staple"})) == (
        401,
        "wrong_password",
    )


async def test_a_corpus_has_the_shape_of_the_contract(join: Join) -> None:
    ada = await join("ada")
    given = {"name": "us_law", "display_name": "US Law", "category": "legal", "version": "1", "is_public": True}
    made = await ada.post("/corpuses", json=given)
    assert made.status_code == 201
    corpus = made.json()
    assert {**corpus, **given} == corpus
    assert (corpus["owner"], corpus["is_approved"], corpus["document_count"], corpus["chunk_count"]) == (
        "ada",
        False,
        0,
        0,
    )
    assert (await ada.get(f"/corpuses/{corpus['id']}")).json() == corpus
    assert (await ada.get("/corpuses?category=legal")).json()["corpuses"] == [corpus]
    assert (await ada.get("/corpuses?approved_only=true")).json()["total"] == 0
    edited = await ada.patch(f"/corpuses/{corpus['id']}", json={"version": "2"})
    assert (edited.json()["version"], edited.json()["display_name"]) == ("2", "US Law")
    assert code(await ada.post("/corpuses", json={})) == (422, "missing_parameter")
    assert code(await ada.post("/corpuses", json={"name": "a/b"})) == (422, "invalid_name")
    assert code(await ada.post("/corpuses", json={**given})) == (409, "name_taken")
    assert code(await ada.get("/corpuses/abc")) == (422, "invalid_corpus_id")
    assert code(await ada.get("/corpuses/0")) == (422, "invalid_corpus_id")
    assert code(await ada.get("/corpuses/77")) == (404, "corpus_not_found")
    assert (await ada.delete(f"/corpuses/{corpus['id']}")).json()["documents"] == 0


async def test_a_file_is_uploaded_to_a_corpus(join: Join, local: LocalEngine) -> None:
    ada, bob = await join("ada"), await join("bob")
    corpus = (await ada.post("/corpuses", json={"name": "law"})).json()["id"]
    sent = {"file": ("breach.md", b"# Breach\n\nthe penalties", "text/markdown")}
    job = await wait_for_job(local, ada, await ada.post(f"/corpuses/{corpus}/upload", files=sent, data={"tags": "a,b"}))
    assert job["status"] == "completed"
    assert (await ada.get(f"/corpuses/{corpus}")).json()["document_count"] == 1
    assert code(await ada.post(f"/corpuses/{corpus}/upload", files=sent)) == (409, "duplicate")
    assert code(await bob.post(f"/corpuses/{corpus}/upload", files=sent)) == (404, "corpus_not_found")


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({}, (422, "no_valid_files")),
        ({"json": {"note": "x"}}, (422, "no_valid_files")),
        ({"files": {"other": (None, b"x")}}, (422, "no_valid_files")),
        ({"files": {"file": ("a.exe", b"x")}}, (415, "unsupported_format")),
        ({"files": {"file": ("a.txt", b"x", "image/png")}}, (415, "wrong_mime")),
        ({"files": {"file": ("a.txt", b"x" * (2 << 20))}}, (413, "too_large")),
        ({"files": {"file": ("a.txt", b"x")}, "data": {"collection": "mine"}}, (422, "invalid_parameter")),
    ],
)
async def test_a_wrong_upload_is_refused(join: Join, request_: dict[str, object], expected: tuple[int, str]) -> None:
    ada = await join("ada")
    corpus = (await ada.post("/corpuses", json={"name": "law"})).json()["id"]
    assert code(await ada.post(f"/corpuses/{corpus}/upload", **request_)) == expected  # type: ignore[arg-type]


async def test_a_job_uid_of_somebody_else_looks_unused(join: Join, http: httpx.AsyncClient, local: LocalEngine) -> None:
    ada, bob = await join("ada"), await join("bob")
    uid = str(new_uid())
    hers = await ada.post("/jobs", json={"note": "tea in the kitchen", "job_uid": uid})
    unused = await bob.post("/jobs", json={"note": "coffee", "job_uid": str(new_uid())})
    taken = await bob.post("/jobs", json={"note": "tea in the garden", "job_uid": uid})
    operators = await http.post("/jobs", json={"note": "milk", "job_uid": uid}, headers=OPERATOR)
    assert taken.status_code == unused.status_code == operators.status_code == 202, taken.text
    assert set(taken.json()) == set(unused.json())
    again = await bob.post("/jobs", json={"note": "tea in the garden", "job_uid": uid})
    assert again.json()["job_id"] == taken.json()["job_id"], "for its owner it is still the same job"
    for person, job in ((ada, hers), (bob, taken)):
        assert (await wait_for_job(local, person, job))["uid"] == uid
        assert (await person.get(f"/jobs/{uid}")).json()["id"] == job.json()["job_id"]
    assert code(await bob.get(f"/jobs/{hers.json()['job_id']}")) == (404, "job_not_found")
    assert code(await bob.post(f"/jobs/{hers.json()['job_id']}/cancel")) == (404, "job_not_found")
    for person, titles in ((ada, {"tea in the kitchen"}), (bob, {"tea in the garden"})):
        assert {each["title"] for each in (await person.get("/documents")).json()["documents"]} >= titles


async def test_permissions_are_granted_and_revoked(join: Join, local: LocalEngine) -> None:
    ada, bob = await join("ada"), await join("bob")
    address = f"/corpuses/{(await ada.post('/corpuses', json={'name': 'law'})).json()['id']}"
    assert code(await bob.get(address)) == (404, "corpus_not_found")
    given = await ada.post(f"{address}/permissions", json={"username": "bob", "permission": "read"})
    assert given.json() == {"permissions": [{"username": "bob", "permission": "read"}]}
    assert (await ada.get(f"{address}/permissions")).json() == given.json()
    assert (await bob.get(address)).status_code == 200
    assert code(await bob.patch(address, json={"version": "2"})) == (403, "insufficient_permissions")
    sent = {"file": ("a.md", b"a clause")}
    assert code(await bob.post(f"{address}/upload", files=sent)) == (403, "insufficient_permissions")
    await ada.post(f"{address}/permissions", json={"username": "bob", "permission": "write"})
    assert (await wait_for_job(local, bob, await bob.post(f"{address}/upload", files=sent)))["status"] == "completed"
    gone = await ada.request("DELETE", f"{address}/permissions", json={"username": "bob"})
    assert gone.json() == {"permissions": []}
    assert code(await bob.get(address)) == (404, "corpus_not_found")
    wrong = {"username": "bob", "permission": "own"}
    assert code(await ada.post(f"{address}/permissions", json=wrong)) == (422, "invalid_parameter")
    nobody = {"username": "nobody"}
    assert code(await ada.post(f"{address}/permissions", json=nobody)) == (404, "account_not_found")


async def test_admins_approve_pending_corpora(http: httpx.AsyncClient, join: Join) -> None:
    ada, bob, root = await join("ada"), await join("bob"), await join("root")
    corpus = (await ada.post("/corpuses", json={"name": "law", "is_public": True})).json()["id"]
    assert code(await bob.get(f"/corpuses/{corpus}")) == (403, "corpus_not_approved")
    assert code(await bob.get("/admin/corpuses/pending")) == (403, "admin_required")
    assert code(await bob.post(f"/admin/corpuses/{corpus}/approve")) == (403, "admin_required")
    assert code(await http.get("/admin/corpuses/pending")) == (401, "missing_key")
    assert [each["id"] for each in (await root.get("/admin/corpuses/pending")).json()["corpuses"]] == [corpus]
    assert (await root.post(f"/admin/corpuses/{corpus}/approve")).json()["is_approved"] is True
    assert (await bob.get(f"/corpuses/{corpus}")).json()["owner"] == "ada"
    revoked = await http.post(f"/admin/corpuses/{corpus}/revoke", headers=OPERATOR)
    assert revoked.json()["is_approved"] is False
    assert code(await bob.get(f"/corpuses/{corpus}")) == (403, "corpus_not_approved")


async def test_the_operator_and_admins_manage_accounts(http: httpx.AsyncClient, join: Join) -> None:
    ada, root = await join("ada"), await join("root")
    assert code(await ada.get("/admin/users")) == (403, "admin_required")
    made = await root.post("/admin/users", json={"username": "robot"})
    assert made.status_code == 201
    nightly = {"name": "nightly"}
    refused = await root.post("/admin/users/robot/api-keys", json=nightly)
    assert code(refused) == (403, "admin_required") and "KB_API_KEY" in refused.json()["error"]["hint"]
    key = (await http.post("/admin/users/robot/api-keys", json=nightly, headers=OPERATOR)).json()["api_key"]
    assert (await http.get("/user", headers={"X-API-Key": key})).json()["username"] == "robot"
    assert (await root.patch("/admin/users/robot", json={"is_disabled": True})).json()["is_disabled"] is True
    assert code(await http.get("/user", headers={"X-API-Key": key})) == (401, "invalid_key")
    assert (await root.delete("/admin/users/robot")).status_code == 200
    assert code(await root.delete("/admin/users/robot")) == (404, "account_not_found")
    names = (await http.get("/admin/users", headers=OPERATOR)).json()["accounts"]
    assert [each["username"] for each in names] == ["ada", "root"]


def set_quota(local: LocalEngine, quota: Quota) -> None:
    parts = local._parts
    parts.acceptor.quota, parts.options = quota, replace(parts.options, quota=quota)


async def test_an_account_cannot_exceed_its_quota(join: Join, local: LocalEngine) -> None:
    set_quota(local, Quota(documents=2, bytes=1 << 10))
    ada, bob = await join("ada"), await join("bob")
    for text in ("one tea", "two teas"):
        assert (await wait_for_job(local, ada, await ada.post("/jobs", json={"note": text, "source_path": text})))[
            "document_id"
        ]
    assert code(await ada.post("/jobs", json={"note": "three teas"})) == (403, "quota_exceeded")
    replaced = await ada.post("/jobs", json={"note": "one more tea", "source_path": "one tea"})
    assert (await wait_for_job(local, ada, replaced))["status"] == "completed", (
        "another version takes the place of the first"
    )
    assert code(await bob.post("/jobs", json={"note": "tea " * 1000})) == (403, "quota_exceeded")
    corpus = (await ada.post("/corpuses", json={"name": "law"})).json()["id"]
    await ada.post(f"/corpuses/{corpus}/permissions", json={"username": "bob", "permission": "write"})
    refused = await bob.post(f"/corpuses/{corpus}/upload", files={"file": ("a.md", b"a clause")})
    assert code(refused) == (403, "quota_exceeded"), "what is added to a corpus is its owner's"
    assert (await bob.get("/jobs")).json()["total"] == 0
    own = (await wait_for_job(local, bob, await bob.post("/jobs", json={"note": "a tea of my own"})))["document_id"]
    moved = await bob.patch(f"/documents/{own}", json={"collection": corpus})
    assert code(moved) == (403, "quota_exceeded"), "and so is what is moved there"
    assert (await bob.get(f"/documents/{own}")).status_code == 200
    await ada.delete(f"/documents/{(await ada.get('/documents')).json()['documents'][0]['id']}")
    assert (await ada.post("/jobs", json={"note": "three teas"})).status_code == 202


async def test_an_archive_counts_against_the_quota_of_an_account(settings: Settings, parsers: SharedParsers) -> None:
    small = settings.model_copy(update={"account_max_documents": 2})
    engine = make_test_engine(small, parsers=parsers)
    engine.start()
    try:
        ada = await register(engine, "ada")
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for number in range(4):
                archive.writestr(f"{number}.txt", f"tea {number}")
        job = await wait_until_done(
            ada, await ada.add(NewFile(filename="tea.zip", content=Content.from_bytes(packed.getvalue())))
        )
        assert sum("was skipped" in warning for warning in job.warnings) == 2
        for each in (await ada.jobs(JobFilter())).items:
            await wait_until_done(ada, each)
        assert (await ada.status()).documents == 2
    finally:
        engine.close()


async def test_the_local_owner_has_no_quota(http: httpx.AsyncClient, local: LocalEngine) -> None:
    set_quota(local, Quota(documents=1))
    for text in ("one tea", "two teas"):
        reply = await http.post("/jobs", json={"note": text}, headers=OPERATOR)
        assert reply.status_code == 202
