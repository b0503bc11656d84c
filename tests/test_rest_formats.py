"""Every format over REST: what it is, what it says about itself, and where each of its passages stands."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge.engine.local import LocalEngine
from knowledge.surfaces.rest import rest_app
from tests.data.extract import documents

Json = dict[str, Any]
SECONDS = 60
SAMPLES = Path(__file__).parent / "data" / "extract"
SENTENCES = ("The quick brown fox jumps over the lazy dog", "and runs away into the dark forest at night")


@pytest.fixture
async def http(local: LocalEngine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=rest_app(local))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1") as client:
        yield client


async def added(http: httpx.AsyncClient, local: LocalEngine, filename: str, content: bytes) -> Json:
    job = (await http.post("/jobs", files={"file": (filename, content)})).json()
    ended = await local.wait(job["job_id"], SECONDS)
    assert ended.status in ("completed", "partial"), ended
    shown: Json = (await http.get(f"/documents/{ended.document_id}")).json()
    return shown


def pdf() -> bytes:
    made = documents.Pdf()
    made.info = b"/Title (Harbour handbook) /Author (Ada) /CreationDate (D:20240301120000Z)"
    made.text((72, 760, 11, "Annual Results"), (72, 720, 11, "Income rose in the third quarter."))
    made.text((72, 760, 11, "Prices"), (72, 700, 11, "Tea costs twelve in the harbour."))
    made.outline(("Annual Results", 1), ("Prices", 2))
    return made.made()


def scanned() -> bytes:
    made = documents.Pdf()
    made.text((72, 760, 11, "The first page has words of its own."))
    made.picture(documents.picture(*SENTENCES, size=(1654, 2339)))
    return made.made()


def odp() -> bytes:
    slides = "".join(
        f'<draw:page><draw:frame presentation:class="title"><text:p>{title}</text:p></draw:frame>'
        f"<text:p>{words}</text:p></draw:page>"
        for title, words in (("Start", "Ships moor here"), ("Prices", "Tea costs twelve"))
    )
    return documents.opendocument("presentation", f"<office:presentation>{slides}</office:presentation>")


def book() -> bytes:
    return documents.epub(
        {"a.xhtml": "<h1>One</h1><p>It began.</p>", "b.xhtml": "<h1>Prices</h1><p>Tea costs twelve.</p>"}
    )


def sample(kind: str) -> Callable[[], bytes]:
    return lambda: gzip.decompress((SAMPLES / f"harbour.{kind}.gz").read_bytes())


def mail() -> bytes:
    return b"From: Ada\nSubject: Harbour handbook\nDate: Fri, 01 Mar 2024 12:00:00 +0000\n\nTea costs twelve.\n"


Case = tuple[str, Callable[[], bytes], Json, tuple[int | None, str, str]]
CASES: list[Case] = [
    (
        "pdf",
        pdf,
        {"title": "Harbour handbook", "author": "Ada", "page_count": 2, "language": "en-GB"},
        (2, "Prices", "Tea"),
    ),
    ("doc", sample("doc"), {"title": "Harbour handbook", "author": "Ada Lovelace"}, (None, "Prices", "Coffee")),
    ("xls", sample("xls"), {"title": "Harbour handbook", "page_count": 2}, (2, "Notes", "Nothing else")),
    ("ppt", sample("ppt"), {"title": "Harbour handbook", "page_count": 2}, (2, "The prices", "Tea costs twelve")),
    ("odp", odp, {"title": "The title", "author": "Ada", "page_count": 2}, (2, "Prices", "Tea costs twelve")),
    ("epub", book, {"title": "A Book", "author": "Ada", "page_count": 2, "language": "en"}, (2, "Prices", "Tea costs")),
    ("eml", mail, {"title": "Harbour handbook", "author": "Ada"}, (None, "Harbour handbook", "Tea costs twelve")),
]


@pytest.mark.parametrize(("kind", "make", "facts", "place"), CASES, ids=[case[0] for case in CASES])
async def test_a_document_says_what_it_is_and_where_its_passages_stand(
    http: httpx.AsyncClient,
    local: LocalEngine,
    kind: str,
    make: Callable[[], bytes],
    facts: Json,
    place: tuple[int | None, str, str],
) -> None:
    shown = await added(http, local, f"a.{kind}", make())
    said = {**shown["metadata"], "title": shown["title"], "page_count": shown["page_count"]}
    assert {name: said.get(name) for name in facts} == facts
    assert (shown["doc_type"], shown["method"], shown["status"]) == (kind, "text_extraction", "completed")
    page, heading, words = place
    chunk = next(chunk for chunk in shown["chunks"] if words in chunk["text"])
    assert (chunk["page"], heading in str(chunk["section_header"])) == (page, True)
    if kind in ("pdf", "doc", "xls", "ppt", "eml"):
        assert shown["metadata"]["created"].startswith("2024-03-01")


async def test_the_way_a_document_was_read_is_told(http: httpx.AsyncClient, local: LocalEngine) -> None:
    image = documents.encoded(documents.picture(*SENTENCES), "PNG")
    whole = documents.Pdf()
    whole.picture(documents.picture(*SENTENCES, size=(1654, 2339)))
    read = {"a.png": image, "a.pdf": whole.made(), "b.pdf": scanned(), "a.txt": b"Words"}
    methods = {name: (await added(http, local, name, content))["method"] for name, content in read.items()}
    assert methods == {"a.png": "image_analysis", "a.pdf": "ocr", "b.pdf": "mixed", "a.txt": "text_extraction"}


async def test_a_page_that_fails_is_named_and_the_document_is_partial(
    http: httpx.AsyncClient, local: LocalEngine
) -> None:
    content = documents.epub({"a.xhtml": "<h1>One</h1><p>It began.</p>", "b.xhtml": "<p>It ended.</p>"})
    place = content.rindex(b"PK\x03\x04", 0, content.index(b"PK\x01\x02")) + 50
    broken = content[:place] + bytes(byte ^ 255 for byte in content[place : place + 10]) + content[place + 10 :]
    shown = await added(http, local, "a.epub", broken)
    assert shown["status"] == "partial"
    assert "Chapter 2 could not be read" in str(shown["warnings"])


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
        shown = await added(http, local, "a.pdf", made.made())
        languages.append(((await local.document(shown["id"])).language, shown["metadata"]["language"]))
    assert languages == [("de", "en-GB"), ("en", "en-GB")]
