"""Adding, finding, editing and removing documents, on local and remote engines."""

from __future__ import annotations

from uuid import uuid4

import pytest

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, DocumentNotFound, Duplicate, InvalidParameter, UnsupportedFormat
from knowledge.model import DocumentEdit, DocumentFilter, DocumentKind, DocumentStatus, JobFilter, JobStatus, NewNote
from tests.support.engines import WAIT_SECONDS, add_file, add_note, make_file, search_ids, wait_until_done


async def test_a_note_is_found_once_its_job_has_ended(engine: Engine) -> None:
    note = await add_note(engine, "The kettle stands in the kitchen")
    assert note.kind is DocumentKind.NOTE
    assert note.status is DocumentStatus.COMPLETED
    assert note.title == "The kettle stands in the kitchen"
    assert await search_ids(engine, "kettle") == [note.id]


async def test_a_file_keeps_its_name_its_headings_and_its_bytes(engine: Engine) -> None:
    text = "# Tea\n\nHow to make it.\n\n## Water\n\nIt must boil.\n"
    document = await add_file(engine, "tea.md", text, tags=("drink",), metadata={"author": "Ada"})
    assert (document.filename, document.doc_type, document.tags) == ("tea.md", "md", ("drink",))
    assert document.metadata["author"] == "Ada"
    chunks = await engine.chunks(document.id)
    assert any("Water" in " ".join((*chunk.section, chunk.text)) for chunk in chunks)
    original = await engine.original(document.id)
    assert b"".join([piece async for piece in original.pieces]) == text.encode()


async def test_a_document_is_found_by_id_and_uuid(engine: Engine) -> None:
    note = await add_note(engine, "one and the same")
    assert await engine.document(note.uid) == await engine.document(note.id)
    with pytest.raises(DocumentNotFound) as caught:
        await engine.document(uuid4())
    assert "document_id" in caught.value.details


async def test_the_same_bytes_in_the_same_collection_are_a_duplicate(engine: Engine) -> None:
    first = await add_file(engine, "a.txt", "the very same words")
    with pytest.raises(Duplicate) as caught:
        await engine.add(make_file("b.txt", "the very same words"))
    assert caught.value.details["document_id"] == first.id
    other = await add_file(engine, "b.txt", "the very same words", collection="elsewhere")
    assert other.id != first.id


async def test_a_changed_file_at_the_same_path_replaces_its_document(engine: Engine) -> None:
    before = await add_file(engine, "plan.txt", "we meet on monday", source_path="/notes/plan.txt")
    after = await add_file(engine, "plan.txt", "we meet on friday", source_path="/notes/plan.txt")
    assert after.id == before.id and after.uid == before.uid
    assert await search_ids(engine, '"monday"') == []
    assert await search_ids(engine, "friday") == [before.id]
    assert (await engine.documents(DocumentFilter())).total == 1


async def test_without_a_source_path_no_document_is_replaced(engine: Engine) -> None:
    first = await add_file(engine, "plan.txt", "we meet on monday")
    second = await add_file(engine, "plan.txt", "we meet on friday")
    assert first.id != second.id


async def test_a_removed_document_is_gone_from_search_and_lists(engine: Engine) -> None:
    note = await add_note(engine, "soon to be forgotten")
    removed = await engine.remove(note.id)
    assert (removed.documents, removed.chunks) == (1, note.chunk_count)
    assert removed.bytes_freed > 0
    assert await search_ids(engine, "forgotten") == []
    with pytest.raises(DocumentNotFound):
        await engine.document(note.id)
    assert await engine.verify() == []


async def test_clearing_removes_every_document(engine: Engine) -> None:
    for number in range(3):
        await add_note(engine, f"number {number} of three")
    removed = await engine.clear()
    assert removed.documents == 3
    assert (await engine.documents(DocumentFilter())).total == 0
    assert await engine.verify() == []


async def test_tags_title_and_metadata_can_be_changed(engine: Engine) -> None:
    note = await add_note(engine, "a plain text", tags=("draft", "mine"), metadata={"a": 1, "b": 2})
    edit = DocumentEdit(title="Orchard", add_tags=("final",), remove_tags=("draft",), metadata={"a": None, "c": 3})
    edited = await engine.edit(note.id, edit)
    assert (edited.title, edited.tags, edited.metadata) == ("Orchard", ("mine", "final"), {"b": 2, "c": 3})
    jobs = (await engine.jobs(JobFilter())).items
    await wait_until_done(engine, jobs[0])
    assert await search_ids(engine, "orchard") == [note.id]
    assert await search_ids(engine, "plain", tags=("final",)) == [note.id]
    assert await search_ids(engine, "plain", tags=("draft",)) == []


async def test_a_document_moves_to_another_collection(engine: Engine) -> None:
    note = await add_note(engine, "moving day")
    moved = await engine.edit(note.id, DocumentEdit(collection="attic"))
    assert moved.collection == "attic"
    assert await search_ids(engine, "moving", collections=("attic",)) == [note.id]
    assert await search_ids(engine, "moving", collections=("documents",)) == []


async def test_documents_are_listed_by_page_type_tag_and_path(engine: Engine) -> None:
    for number in range(5):
        await add_file(engine, f"{number}.txt", f"text {number}", source_path=f"/t/{number}.txt", tags=("all",))
    await add_note(engine, "a note among files")
    page = await engine.documents(DocumentFilter(doc_type="txt", per_page=2, page=2, sort="title", descending=False))
    assert (page.total, [document.title for document in page.items]) == (5, ["2", "3"])
    assert (await engine.documents(DocumentFilter(tag="all"))).total == 5
    (only,) = (await engine.documents(DocumentFilter(source_path="/t/3.txt"))).items
    assert only.title == "3"


async def test_an_unknown_format_is_refused_with_the_supported_ones(engine: Engine) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        await engine.add(make_file("thing.xyz", "?"))
    assert "md" in caught.value.details["supported"]  # type: ignore[operator]


async def test_an_empty_note_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidParameter):
        await engine.add(NewNote(text="  \n "))


async def test_a_file_without_text_fails_and_leaves_nothing_but_its_job(engine: Engine) -> None:
    job = await engine.add(make_file("blank.txt", "   \n\n  "))
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.status is JobStatus.FAILED
    assert ended.error is not None and ended.error.code == "no_text"
    assert (await engine.documents(DocumentFilter())).total == 0
    assert await engine.verify() == []


async def test_a_search_in_an_unknown_collection_is_an_error(engine: Engine) -> None:
    await add_note(engine, "something")
    with pytest.raises(CollectionNotFound):
        await search_ids(engine, "something", collections=("nowhere",))
