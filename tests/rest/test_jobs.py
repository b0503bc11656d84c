"""Adding files and notes over REST, as forms and as JSON, and their jobs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app

Json = dict[str, Any]
SECONDS = 20
MAX_FILE_BYTES = 1 << 20
PART = b"--x\r\nContent-Disposition: form-data"


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local, max_file_bytes=MAX_FILE_BYTES))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def wait_for_job(http: httpx.AsyncClient, local: LocalEngine, reply: httpx.Response) -> Json:
    assert reply.status_code == 202, reply.text
    await local.wait(reply.json()["job_id"], SECONDS)
    job: Json = (await http.get(f"/jobs/{reply.json()['job_id']}")).json()
    return job


async def document(http: httpx.AsyncClient, job: Json) -> Json:
    assert job["status"] == "completed", job
    shown: Json = (await http.get(f"/documents/{job['document_id']}")).json()
    return shown


async def test_a_file_in_a_form_becomes_a_document(http: httpx.AsyncClient, local: LocalEngine) -> None:
    fields = {
        "tags": "hot, drink",
        "collection": "memory",
        "title": "Tea",
        "metadata": json.dumps({"author": "Ada"}),
        "source_path": "notes/tea.md",
        "url": "https://tea.example",
        "force_ocr": "false",
    }
    reply = await http.post("/jobs", data=fields, files={"file": ("tea.md", b"# Tea\n\nat noon")})
    assert set(reply.json()) >= {"job_id", "status", "filename"}
    assert reply.json()["filename"] == "tea.md"
    shown = await document(http, await wait_for_job(http, local, reply))
    assert (shown["title"], shown["doc_type"], shown["kind"]) == ("Tea", "md", "file")
    assert shown["tags"] == ["collection:memory", "drink", "hot"] or shown["tags"] == [
        "collection:memory",
        "hot",
        "drink",
    ]
    assert (shown["metadata"]["author"], shown["source_path"]) == ("Ada", "notes/tea.md")


@pytest.mark.parametrize("tags", [["a", "b"], ["a,b"], ['["a", "b"]'], ["collection:documents", "a", "b"]])
async def test_tags_of_a_form_are_read_in_every_notation(
    http: httpx.AsyncClient, local: LocalEngine, tags: list[str]
) -> None:
    reply = await http.post("/jobs", data={"note": "tea", "tags": tags})
    shown = await document(http, await wait_for_job(http, local, reply))
    assert shown["tags"] == ["collection:documents", "a", "b"]


async def test_a_note_comes_in_a_form_or_in_json(http: httpx.AsyncClient, local: LocalEngine) -> None:
    in_json = await http.post("/jobs", json={"note": "tea at noon", "tags": ["collection:memory", "x"]})
    in_form = await http.post("/jobs", files={"note": (None, "milk at four"), "tags": (None, "collection:memory,x")})
    for reply in (in_json, in_form):
        shown = await document(http, await wait_for_job(http, local, reply))
        assert (shown["kind"], shown["tags"]) == ("note", ["collection:memory", "x"])


async def test_the_same_bytes_again_are_a_duplicate(http: httpx.AsyncClient, local: LocalEngine) -> None:
    job = await wait_for_job(http, local, await http.post("/jobs", json={"note": "tea at noon", "title": "Tea"}))
    again = await http.post("/jobs", json={"note": "tea at noon"})
    assert again.status_code == 409
    assert again.headers["x-mcp-error-code"] == again.json()["error"]["code"] == "duplicate"
    details = again.json()["error"]["details"]
    assert (details["document_id"], details["title"]) == (job["document_id"], "Tea")


async def test_the_same_request_sent_twice_happens_once(http: httpx.AsyncClient, local: LocalEngine) -> None:
    body = {"note": "tea at noon", "job_uid": str(uuid4())}
    first, second = await http.post("/jobs", json=body), await http.post("/jobs", json=body)
    assert first.json()["job_id"] == second.json()["job_id"]
    assert first.json()["uid"] == body["job_uid"]


async def test_a_job_has_the_fields_that_clients_read(http: httpx.AsyncClient, local: LocalEngine) -> None:
    job = await wait_for_job(http, local, await http.post("/jobs", json={"note": "tea at noon"}))
    wanted = "id kind filename status progress step error document_id chunk_count created_at started_at completed_at"
    assert set(wanted.split()) <= set(job)
    assert (job["status"], job["progress"], job["error"], job["chunk_count"]) == ("completed", 1.0, None, 1)
    assert (await http.get(f"/jobs/{job['uid']}")).json() == job


async def test_a_failed_job_has_its_reason_and_is_listed(http: httpx.AsyncClient, local: LocalEngine) -> None:
    job = await wait_for_job(
        http, local, await http.post("/jobs", files={"file": ("blank.html", b"<html><body> </body></html>")})
    )
    assert job["status"] == "failed"
    assert job["error"]["code"] and job["error"]["message"]
    listed: Json = (await http.get("/jobs", params={"status": "failed"})).json()
    assert ([each["id"] for each in listed["jobs"]], listed["total"]) == ([job["id"]], 1)
    assert (await http.get("/jobs?status=queued")).json()["jobs"] == []
    hopeless = await http.post(f"/jobs/{job['id']}/retry")
    assert (hopeless.status_code, hopeless.json()["error"]["code"]) == (409, "not_now")


async def test_a_job_that_has_ended_cannot_be_cancelled(http: httpx.AsyncClient, local: LocalEngine) -> None:
    job = await wait_for_job(http, local, await http.post("/jobs", json={"note": "tea"}))
    refused = await http.post(f"/jobs/{job['id']}/cancel")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_now")


@pytest.mark.parametrize("call", [("GET", ""), ("POST", "/cancel"), ("POST", "/retry")])
async def test_an_unknown_job_is_not_found(http: httpx.AsyncClient, call: tuple[str, str]) -> None:
    reply = await http.request(call[0], f"/jobs/{uuid4()}{call[1]}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "job_not_found")


async def test_an_unsupported_format_is_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post("/jobs", files={"file": ("a.exe", b"MZ")})
    assert (reply.status_code, reply.json()["error"]["code"]) == (415, "unsupported_format")


async def test_a_file_with_a_too_large_content_length_is_not_read(http: httpx.AsyncClient) -> None:
    reply = await http.post("/jobs", files={"file": ("a.txt", b"x" * (MAX_FILE_BYTES + (2 << 20)))})
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert reply.json()["error"]["details"]["max_size_mb"]


async def test_a_file_that_grows_too_large_is_refused_while_it_is_sent(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    seen = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal seen
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(50):
            seen += 1
            yield b"tea " * 16384

    headers = {"content-type": "multipart/form-data; boundary=x"}
    reply = await http.post("/jobs", content=endless(), headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")
    assert (await local.status()).documents == 0


@pytest.mark.parametrize(
    ("kind", "body", "status", "code"),
    [
        ("multipart/form-data", b"", 400, "malformed"),
        ("multipart/form-data; boundary=x", b"nonsense", 400, "malformed"),
        ("multipart/form-data; boundary=x", PART + b'; name="file"; filename="a', 400, "malformed"),
        ("multipart/form-data; boundary=x", PART + b'; name="note"\r\n\r\nhalf', 400, "malformed"),
        ("multipart/form-data; boundary=x", PART + b"\r\n\r\nx\r\n--x--\r\n", 400, "malformed"),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422, "missing_parameter"),
        ("application/json", b"{", 400, "malformed"),
        ("application/json", b"", 422, "missing_parameter"),
        ("application/json", b'{"note": "x", "nota": "y"}', 422, "unknown_parameter"),
        ("application/json", b'{"note": 7}', 422, "invalid_parameter"),
        ("application/json", b'{"note": "  "}', 422, "invalid_parameter"),
        ("application/json", b'{"note": "x", "tags": ["collection:a", "collection:b"]}', 422, "invalid"),
        ("text/plain", b"tea", 415, "unsupported_format"),
        ("application/x-www-form-urlencoded", b"note=tea&tagz=x", 422, "unknown_parameter"),
        ("application/x-www-form-urlencoded", b"note=tea&title=a&title=b", 422, "invalid_parameter"),
        ("application/x-www-form-urlencoded", b"note=tea&metadata=%7B", 422, "invalid_parameter"),
        ("application/x-www-form-urlencoded", b"note=tea&metadata=%5B%5D", 422, "invalid_parameter"),
        ("application/x-www-form-urlencoded", b"note=tea&job_uid=7", 422, "invalid_parameter"),
        ("application/x-www-form-urlencoded", b"title=tea", 422, "missing_parameter"),
        ("application/x-www-form-urlencoded", b"&".join([b"tags=x"] * 300), 400, "malformed"),
    ],
)
async def test_what_cannot_be_added_is_refused_with_its_code(
    http: httpx.AsyncClient, kind: str, body: bytes, status: int, code: str
) -> None:
    reply = await http.post("/jobs", content=body, headers={"content-type": kind})
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert error["message"]
    assert error["hint"]


async def test_a_file_and_a_note_together_are_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post("/jobs", data={"note": "tea"}, files={"file": ("a.txt", b"tea")})
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "invalid")


@pytest.mark.parametrize(
    "files", [{"document": ("a.txt", b"tea")}, {"file": (None, b"tea")}, {"note": ("a.txt", b"tea")}]
)
async def test_a_file_in_the_wrong_field_is_refused(http: httpx.AsyncClient, files: Any) -> None:
    reply = await http.post("/jobs", files=files)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "invalid_parameter")


async def test_two_files_at_once_are_refused(http: httpx.AsyncClient) -> None:
    reply = await http.post("/jobs", files=[("file", ("a.txt", b"tea")), ("file", ("b.txt", b"milk"))])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "malformed")


async def test_many_at_once_are_all_accepted(http: httpx.AsyncClient, local: LocalEngine) -> None:
    replies = await asyncio.gather(*(http.post("/jobs", json={"note": f"note number {n}"}) for n in range(32)))
    assert {reply.status_code for reply in replies} == {202}
    assert len({reply.json()["job_id"] for reply in replies}) == 32
