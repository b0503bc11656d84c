"""Drawn pages and originals over HTTP: headers, conditional requests, ranges, wrong values, other accounts."""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from PIL import Image

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.pages import drawing_queue
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.guard import wrap_in_guard
from knowledge.surfaces.rest import make_rest_app
from tests.data.extract import documents
from tests.support import pdfs

DATA, _ = pdfs.make_columns(1)


@pytest.fixture
async def http(local: LocalEngine, settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    authenticator = Authenticator.from_settings(settings, local.accounts.find_by_key)
    app = wrap_in_guard(make_rest_app(local), settings, authenticator)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8000") as client:
        yield client


async def upload(http: httpx.AsyncClient, name: str, data: bytes, headers: dict[str, str] | None = None) -> str:
    """Add a file, wait for its job, and return the path of its document."""
    accepted = await http.post("/api/v1/jobs", files={"file": (name, data)}, headers=headers)
    assert accepted.status_code == 202, accepted.text
    async with asyncio.timeout(60):
        while True:
            job = (await http.get(f"/api/v1/jobs/{accepted.json()['job_id']}", headers=headers)).json()
            if job["status"] in ("completed", "partial", "failed"):
                assert job["status"] != "failed", job
                return f"/api/v1/documents/{job['document_id']}"
            await asyncio.sleep(0.01)


# -- pictures -------------------------------------------------------------------------------------


async def test_a_picture_has_the_headers_of_a_private_file(http: httpx.AsyncClient) -> None:
    path = await upload(http, "a.pdf", DATA)
    answer = await http.get(f"{path}/pages/1?width=1600")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/webp"
    assert answer.headers["cache-control"] == "private, max-age=86400"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["x-content-type-options"] == "nosniff"
    etag = answer.headers["etag"]
    assert etag.startswith('"')
    assert etag != (await http.get(f"{path}/pages/1?width=900")).headers["etag"]
    for given in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = await http.get(f"{path}/pages/1?width=1600", headers={"If-None-Match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    thumbnail = await http.get(f"{path}/thumbnail")
    assert Image.open(io.BytesIO(thumbnail.content)).width == 240
    unchanged = await http.get(f"{path}/thumbnail", headers={"If-None-Match": thumbnail.headers["etag"]})
    assert unchanged.status_code == 304


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("pages/2", 404, "page_not_found"),
        ("pages/0", 422, "invalid_parameter"),
        ("pages/first", 422, "invalid_parameter"),
        ("pages/99999999999999999999", 422, "invalid_parameter"),
        ("pages/1?width=1200", 422, "invalid_parameter"),
        ("pages/1?scale=2", 422, "unknown_parameter"),
        ("pages/2/words", 404, "page_not_found"),
        ("pages?from=0", 422, "invalid_parameter"),
        ("places", 422, "missing_parameter"),
        ("places?from=3&to=1", 422, "invalid_parameter"),
        ("places?from=0&to=9000", 422, "invalid_parameter"),
        ("places?from=-1", 422, "invalid_parameter"),
    ],
)
async def test_a_wrong_page_width_or_range_is_a_clear_error(
    http: httpx.AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await http.get(f"{await upload(http, 'a.pdf', DATA)}/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def test_the_shapes_of_pages_words_places_and_outline(http: httpx.AsyncClient) -> None:
    path = await upload(http, "a.pdf", DATA)
    assert (await http.get(f"{path}/pages")).json() == {
        "page_count": 1,
        "pages": [{"page": 1, "width": 595.0, "height": 842.0}],
    }
    assert (await http.get(f"{path}/pages?from=2&to=9")).json() == {"page_count": 1, "pages": []}
    words = (await http.get(f"{path}/pages/1/words")).json()
    assert (words["page"], words["source"], words["words"][0]["text"]) == (1, "text", "The")
    assert len(words["words"][0]["box"]) == 4
    places = (await http.get(f"{path}/places?from=0&to=0")).json()
    assert places["note"] is None
    (place,) = places["places"]
    assert (place["chunk"], place["page"], place["width"], place["height"]) == (0, 1, 595.0, 842.0)
    assert place["coverage"] == 1.0
    assert all(0 <= value <= 1 for box in place["boxes"] for value in box)
    assert (await http.get(f"{path}/places?from=70")).json() == {"places": [], "note": None}


async def test_the_outline_has_the_headings_with_their_first_passage(http: httpx.AsyncClient) -> None:
    body = "The kettle whistles in the kitchen while the tea steeps."
    text = f"# Tea\n\n{body}\n\n## Green\n\n{body}\n\n## Black\n\n{body}\n\n# Coffee\n\n{body}"
    path = await upload(http, "tea.md", text.encode())
    outline = (await http.get(f"{path}/outline")).json()["outline"]
    assert [(entry["title"], entry["level"], entry["page"]) for entry in outline] == [
        ("Tea", 1, None), ("Green", 2, None), ("Black", 2, None), ("Coffee", 1, None),
    ]  # fmt: skip
    chunks = [entry["chunk"] for entry in outline]
    assert chunks == sorted(chunks)
    assert chunks[0] == 0
    refused = await http.get(f"{path}/pages")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_pages")
    assert (await http.get(f"{path}/thumbnail")).status_code == 404
    assert (await http.get(f"{path}/places?from=0")).json() == {"places": [], "note": "no_pages"}


async def test_another_account_gets_404_for_everything(http: httpx.AsyncClient) -> None:
    keys = {}
    for name in ("ada", "bob"):
        await http.post("/api/v1/user/register", json={"username": name, "password": "long enough 1"})
        login = await http.post("/api/v1/user/login", json={"username": name, "password": "long enough 1"})
        keys[name] = {"Authorization": f"Bearer {login.json()['api_key']}"}
    path = await upload(http, "a.pdf", DATA, keys["ada"])
    drawn = await http.get(f"{path}/pages/1", headers=keys["ada"])
    assert drawn.status_code == 200
    tag = {"If-None-Match": drawn.headers["etag"]}
    for call in (
        "pages",
        "pages/1",
        "pages/1?width=1600",
        "pages/1/words",
        "places?from=0",
        "outline",
        "thumbnail",
        "file",
    ):
        answer = await http.get(f"{path}/{call}", headers=keys["bob"] | tag)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "document_not_found"), call
        missing = await http.get(f"/api/v1/documents/999999/{call}", headers=keys["bob"])
        assert missing.json()["error"]["code"] == answer.json()["error"]["code"]
    assert (await http.head(f"{path}/file", headers=keys["bob"])).status_code == 404


async def test_the_same_page_asked_for_at_once_is_drawn_once(http: httpx.AsyncClient, local: LocalEngine) -> None:
    path = await upload(http, "a.pdf", DATA)
    reader = local._parts.pages._reader
    drawn: list[int] = []
    draw = reader.draw_page

    def count_and_draw(*given: object) -> bytes:
        drawn.append(1)
        return draw(*given)  # type: ignore[arg-type]

    reader.draw_page = count_and_draw  # type: ignore[assignment, method-assign]
    answers = await asyncio.gather(*(http.get(f"{path}/pages/1") for _ in range(12)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(drawn) == 1


async def test_too_many_drawings_are_refused_with_a_time_to_wait(
    http: httpx.AsyncClient, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pdf = documents.Pdf()
    for number in range(1, 9):
        pdf.text((72, 700, 12, f"The breakwater of page {number} is to be mended in spring"))
    path = await upload(http, "a.pdf", pdf.to_bytes())
    monkeypatch.setattr(drawing_queue, "MAX_WAITING_PER_OWNER", 3)
    answers = await asyncio.gather(*(http.get(f"{path}/pages/{number}") for number in range(1, 9)))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert {answer.json()["error"]["code"] for answer in refused} == {"busy"}
    assert [answer.status_code for answer in answers if answer not in refused] == [200] * (8 - len(refused))
    assert (await http.get(f"{path}/pages/8")).status_code == 200  # when the others are done


# -- the cache ------------------------------------------------------------------------------------


def list_cached(settings: Settings) -> list[Path]:
    return [path for path in (settings.data / "pages").rglob("*") if path.is_file()]


async def test_drawn_pages_are_cached_privately_and_deleted_with_the_last_document(
    http: httpx.AsyncClient, settings: Settings
) -> None:
    path = await upload(http, "a.pdf", DATA)
    await http.post("/api/v1/collections", json={"title": "Second"})
    form = {"collection": "second"}
    await http.post("/api/v1/jobs", files={"file": ("b.pdf", DATA)}, data=form)
    async with asyncio.timeout(60):
        while len(listed := (await http.get("/api/v1/documents?finished=true")).json()["documents"]) < 2:
            await asyncio.sleep(0.01)
    for width in (900, 1600):
        await http.get(f"{path}/pages/1?width={width}")
    cached = list_cached(settings)
    assert len(cached) == 2
    assert {oct(each.stat().st_mode & 0o777) for each in cached} == {"0o600"}
    await http.delete(path)
    assert len(list_cached(settings)) == 2  # the other document has the same bytes
    (other,) = (each["id"] for each in listed if not path.endswith(f"/{each['id']}"))
    await http.delete(f"/api/v1/documents/{other}")
    assert list_cached(settings) == []
    assert list((settings.data / "pages").iterdir()) == []


# -- originals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-9", (0, 10)), ("bytes=5-5", (5, 6)), ("bytes=100-", (100, len(DATA))), ("bytes=-7", (-7, len(DATA))),
        ("bytes=10-99999999", (10, len(DATA))), ("bytes=-99999999", (0, len(DATA))),
    ],
)  # fmt: skip
async def test_a_range_of_the_original_is_sent(http: httpx.AsyncClient, asked: str, expected: tuple[int, int]) -> None:
    path = await upload(http, "a.pdf", DATA)
    answer = await http.get(f"{path}/file", headers={"Range": asked})
    start, stop = expected[0] % len(DATA), expected[1]
    assert (answer.status_code, answer.content) == (206, DATA[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"
    assert answer.headers["content-length"] == str(stop - start)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"


async def test_conditions_on_the_original(http: httpx.AsyncClient) -> None:
    path = await upload(http, "a.pdf", DATA)
    whole = await http.get(f"{path}/file")
    etag = whole.headers["etag"]
    assert (whole.status_code, whole.content) == (200, DATA)
    assert etag == f'"{hashlib.sha256(DATA).hexdigest()}"'
    assert whole.headers["accept-ranges"] == "bytes"
    head = await http.head(f"{path}/file")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    assert head.headers["content-length"] == str(len(DATA))
    assert (await http.get(f"{path}/file", headers={"If-None-Match": etag})).status_code == 304
    assert (await http.head(f"{path}/file", headers={"If-None-Match": etag})).status_code == 304
    beyond = await http.get(f"{path}/file", headers={"Range": f"bytes={len(DATA)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(DATA)}")
    assert beyond.json()["error"]["code"] == "invalid_parameter"
    same = await http.get(f"{path}/file", headers={"Range": "bytes=0-3", "If-Range": etag})
    assert (same.status_code, same.content) == (206, DATA[:4])
    for old in ('"old"', f"W/{etag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
        other = await http.get(f"{path}/file", headers={"Range": "bytes=0-3", "If-Range": old})
        assert (other.status_code, other.content) == (200, DATA)
    for unknown in ("bytes=0-3,7-9", "bytes=9-3", "bytes=-", "lines=1-2", "bytes=a-b", "bytes=" + "1" * 9000 + "-"):
        answer = await http.get(f"{path}/file", headers={"Range": unknown})
        assert (answer.status_code, answer.content) == (200, DATA)
