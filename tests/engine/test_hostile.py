"""Hostile files fail with a reason, and search answers while they are processed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from knowledge.engine.local import LocalEngine
from knowledge.errors import KnowledgeError
from knowledge.model import Content, DocumentFilter, JobStatus, NewFile
from tests.data.extract import documents
from tests.support.engines import WAIT_SECONDS, add_note, search_ids

PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(4000)


def make_hostile_files() -> Iterator[tuple[str, bytes]]:
    """Yield damaged, mislabelled, encrypted, huge and deeply nested files."""
    pdf = documents.Pdf()
    pdf.text((72, 700, 12, "Words that are long enough to be a text layer of their own"))
    whole = {
        "pdf": pdf.to_bytes(),
        "epub": documents.make_epub({"one.xhtml": "<h1>One</h1><p>" + "words " * 300 + "</p>"}),
        "odt": documents.make_opendocument("text", "<office:text><text:p>words</text:p></office:text>"),
        "msg": documents.make_msg("Tea", "ready", ("a.txt", b"words")),
    }
    for suffix, content in whole.items():
        yield f"half.{suffix}", content[: len(content) // 2]
        yield f"program.{suffix}", PROGRAM
    yield "huge.png", documents.png_claiming(50_000, 50_000)
    yield "pages.pdf", pdf.to_bytes(count=100_000)
    yield "locked.docx", documents.make_compound_file({"EncryptedPackage": b"x" * 100, "EncryptionInfo": b"y"})
    yield "deep.rtf", b"{\\rtf1" + b"{" * 100_000
    yield "deep.html", b"<div>" * 50_000
    yield "deep.json", b"[" * 100_000
    yield "empty.txt", b""
    yield "binary.txt", bytes(range(256)) * 40
    yield "entities.svg", b'<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]><svg><text>&b;</text></svg>'
    yield "nested.zip", documents.make_zip({"inner.zip": documents.make_zip({"a.txt": "words"})})
    yield "out.zip", documents.make_zip({"../../out.txt": "words that want to be elsewhere"})


async def outcome(engine: LocalEngine, name: str, content: bytes) -> str:
    """Add a file, and return the error message or the status of its job."""
    try:
        job = await engine.add(NewFile(filename=name, content=Content.from_bytes(content)))
    except KnowledgeError as error:
        return str(error)
    ended = await engine.wait(job.id, 4 * WAIT_SECONDS)
    assert ended.status.has_ended, name
    if ended.status is JobStatus.FAILED:
        assert ended.error is not None
        return ended.error.message
    return ended.status.value


async def test_search_answers_while_hostile_files_are_processed(local: LocalEngine) -> None:
    note = await add_note(local, "the harbour is open")
    adding = asyncio.gather(*(outcome(local, name, content) for name, content in make_hostile_files()))
    searches = 0
    while not adding.done():
        assert note.id in await search_ids(local, "harbour")
        searches += 1
        await asyncio.sleep(0.05)
    assert all(await adding) and searches
    assert await local.verify() == []
    names = {document.filename for document in (await local.documents(DocumentFilter(per_page=100))).items}
    assert not names & {"huge.png", "pages.pdf", "locked.docx", "binary.txt", "entities.svg"}
