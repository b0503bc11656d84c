"""Every format over REST: type, metadata, and the place of each passage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from PIL import Image

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import make_rest_app
from tests.data.extract import documents
from tests.data.extract.samples import SAMPLES, SENTENCES

Json = dict[str, Any]
SECONDS = 60


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=make_rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def add_file(http: httpx.AsyncClient, local: LocalEngine, filename: str, content: bytes) -> Json:
    job = (await http.post("/jobs", files={"file": (filename, content)})).json()
    ended = await local.wait(job["job_id"], SECONDS)
    assert ended.status in ("completed", "partial"), ended
    shown: Json = (await http.get(f"/documents/{ended.document_id}")).json()
    return shown


def make_scan() -> bytes:
    made = documents.Pdf()
    made.text((72, 760, 11, "The first page has words of its own."))
    made.picture(documents.draw_picture(*SENTENCES, size=(1654, 2339)))
    return made.to_bytes()


HARBOUR = {"title": "Harbour handbook", "author": "Ada"}
OLD = {"title": "Harbour handbook", "author": "Ada Lovelace"}
OPEN = {"title": "The title", "author": "Ada", "language": "en"}
Place = tuple[int | None, str, str]
CASES: dict[str, tuple[Json, Place]] = {
    "pdf": ({**HARBOUR, "page_count": 2, "language": "en-GB"}, (2, "Prices", "Tea")),
    "docx": ({**HARBOUR, "page_count": None}, (None, "Prices", "Tea costs twelve")),
    "pptx": ({**HARBOUR, "page_count": 2}, (2, "Prices", "Tea costs twelve")),
    "xlsx": ({**HARBOUR, "page_count": 2}, (2, "Prices", "Tea costs | twelve")),
    "doc": (OLD, (None, "Prices", "Coffee")),
    "xls": ({**OLD, "page_count": 2}, (2, "Notes", "Nothing else")),
    "ppt": ({**OLD, "page_count": 2}, (2, "The prices", "Tea costs twelve")),
    "odt": ({**OPEN, "page_count": None}, (None, "Prices", "Tea costs twelve")),
    "odp": ({**OPEN, "page_count": 2}, (2, "Prices", "Tea costs twelve")),
    "ods": ({**OPEN, "page_count": 2}, (2, "Prices", "Tea costs twelve")),
    "rtf": (HARBOUR, (None, "Prices", "Tea costs twelve")),
    "epub": (
        {"title": "A Book", "author": "Ada", "page_count": 2, "language": "en"},
        (2, "Prices", "Tea costs twelve"),
    ),
    "eml": (HARBOUR, (None, "Harbour handbook", "Tea costs twelve")),
    "msg": ({"title": "Harbour handbook"}, (None, "Harbour handbook", "Tea costs twelve")),
    "html": ({**HARBOUR, "language": "en"}, (None, "Prices", "Tea costs twelve")),
    "md": (HARBOUR, (None, "Prices", "Tea costs twelve")),
    "rst": ({"title": "Prices"}, (None, "Prices", "Tea costs twelve")),
    "ipynb": ({}, (None, "Prices", "Tea costs twelve")),
    "csv": ({"title": "a"}, (None, "", "Tea costs | twelve")),
    "svg": ({"title": "Prices"}, (None, "", "Tea costs twelve")),
}
UNDATED = ("epub", "rst", "ipynb", "csv", "svg", "msg")


@pytest.mark.parametrize("kind", CASES)
async def test_a_document_has_its_metadata_and_the_places_of_its_passages(
    http: httpx.AsyncClient, local: LocalEngine, kind: str
) -> None:
    facts, (page, heading, words) = CASES[kind]
    shown = await add_file(http, local, f"a.{kind}", SAMPLES[kind]())
    said = {**shown["metadata"], "title": shown["title"], "page_count": shown["page_count"]}
    assert {name: said.get(name) for name in facts} == facts
    assert (shown["doc_type"], shown["method"], shown["status"]) == (kind, "text_extraction", "completed")
    chunk = next(chunk for chunk in shown["chunks"] if words in chunk["text"])
    assert (chunk["page"], heading in str(chunk["section_header"])) == (page, True)
    if kind not in UNDATED:
        assert shown["metadata"]["created"].startswith("2024-03-01")


async def test_the_extraction_method_of_a_document_is_reported(http: httpx.AsyncClient, local: LocalEngine) -> None:
    image = documents.encode_image(documents.draw_picture(*SENTENCES), "PNG")
    whole = documents.Pdf()
    whole.picture(documents.draw_picture(*SENTENCES, size=(1654, 2339)))
    read = {"a.png": image, "a.pdf": whole.to_bytes(), "b.pdf": make_scan(), "a.txt": b"Words"}
    methods = {name: (await add_file(http, local, name, content))["method"] for name, content in read.items()}
    assert methods == {"a.png": "image_analysis", "a.pdf": "ocr", "b.pdf": "mixed", "a.txt": "text_extraction"}


async def test_a_failed_page_is_reported_and_the_document_is_partial(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    content = documents.make_epub({"a.xhtml": "<h1>One</h1><p>It began.</p>", "b.xhtml": "<p>It ended.</p>"})
    place = content.rindex(b"PK\x03\x04", 0, content.index(b"PK\x01\x02")) + 50
    broken = content[:place] + bytes(byte ^ 255 for byte in content[place : place + 10]) + content[place + 10 :]
    shown = await add_file(http, local, "a.epub", broken)
    assert shown["status"] == "partial"
    assert "Chapter 2 could not be read" in str(shown["warnings"])


async def test_a_page_on_which_ocr_fails_is_reported_and_the_others_are_read(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    made = documents.Pdf()
    made.text((72, 760, 11, "The first page has words of its own."))
    half = Image.new("L", (200, 20), 255)
    half.paste(0, (0, 0, 100, 20))
    made.picture(half, size=(60_000, 4))  # too thin for OCR at any size
    made.picture(documents.draw_picture(*SENTENCES, size=(1654, 2339)))
    shown = await add_file(http, local, "a.pdf", made.to_bytes())
    assert (shown["status"], shown["method"], shown["page_count"]) == ("partial", "mixed", 3)
    assert [warning[:21] for warning in shown["warnings"]] == ["OCR of page 2 failed:"]
    assert {chunk["page"] for chunk in shown["chunks"]} == {1, 3}


async def test_a_declared_language_counts_without_its_country_and_after_the_text(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    german = "Der Hafen liegt im Norden der Stadt, und die Schiffe kommen am Morgen mit dem Wind aus Westen herein."
    wrong = documents.Pdf()
    wrong.text(*((72, 760 - 20 * place, 11, german) for place in range(8)))
    short = documents.Pdf()
    short.text((72, 760, 11, "Tea, 12"))
    languages = []
    for made in (wrong, short):
        shown = await add_file(http, local, "a.pdf", made.to_bytes())
        languages.append(((await local.document(shown["id"])).language, shown["metadata"]["language"]))
    assert languages == [("de", "en-GB"), ("en", "en-GB")]
