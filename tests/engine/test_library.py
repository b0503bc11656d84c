"""Many documents at once, documents near another one, and changes that meet another change."""

from __future__ import annotations

import asyncio

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import (
    CollectionNotFound,
    ConfirmationRequired,
    DocumentChanged,
    DocumentNotFound,
    MissingParameter,
)
from knowledge.model import DocumentEdit, DocumentFilter, Permission
from knowledge.model.library import DocumentSelection
from knowledge.model.values import Access
from knowledge.store.library import batches
from tests.support.accounts import create_corpus, register
from tests.support.engines import add_note, search_ids

EVERYTHING = DocumentSelection(filter=DocumentFilter())


async def count(engine: Engine, **wanted: object) -> int:
    return (await engine.documents(DocumentFilter(**wanted))).total  # type: ignore[arg-type]


async def test_all_documents_of_a_filter_are_tagged_and_moved(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "DOCUMENTS_PER_TRANSACTION", 2)
    for number in range(5):
        await add_note(engine, f"kettle {number}", title=f"Kettle {number}", tags=("tea",))
    other = await add_note(engine, "a boat on the lake", title="Boat")
    chosen = DocumentSelection(filter=DocumentFilter(text="kettle", tag="tea", page=2, per_page=1))
    edit = DocumentEdit(add_tags=("hot",), remove_tags=("tea",), collection="kitchen")
    done = await engine.library.edit_many(chosen, edit)
    assert (done.selected, done.done, done.failed, done.failures) == (5, 5, 0, ())
    found = await engine.documents(DocumentFilter(collection="kitchen"))
    assert {document.tags for document in found.items} == {("hot",)} and found.total == 5
    assert (await engine.document(other.id)).collection == "documents"
    with pytest.raises(CollectionNotFound):
        await engine.library.edit_many(DocumentSelection(filter=DocumentFilter(collection="nowhere")), edit)


async def test_many_documents_are_deleted_only_with_their_number(engine: Engine) -> None:
    notes = [await add_note(engine, f"harbour number {number}") for number in range(3)]
    for wrong in (None, 2):
        with pytest.raises(ConfirmationRequired) as refused:
            await engine.library.remove_many(EVERYTHING, wrong)
        assert (refused.value.details["documents"], refused.value.details["chunks"]) == (3, 3)
    assert await count(engine) == 3
    gone = await engine.library.remove_many(DocumentSelection(ids=(notes[0].id, notes[1].uid)), 2)
    assert (gone.selected, gone.done, gone.chunks) == (2, 2, 2)
    assert await search_ids(engine, "harbour") == [notes[2].id]
    assert (await engine.library.remove_many(EVERYTHING, 1)).done == 1
    assert await engine.verify() == []


async def test_documents_that_cannot_be_changed_are_named_and_the_others_are_changed(engine: Engine) -> None:
    note = await add_note(engine, "the kettle boils")
    chosen = DocumentSelection(ids=(note.id, 10**9))
    done = await engine.library.edit_many(chosen, DocumentEdit(add_tags=("tea",)))
    assert (done.selected, done.done, done.failed) == (2, 1, 1)
    assert [(each.id, each.code) for each in done.failures] == [(str(10**9), "document_not_found")]
    with pytest.raises(MissingParameter):
        await engine.library.edit_many(chosen, DocumentEdit())


async def test_a_batch_reaches_only_what_the_account_may_change(engine: Engine) -> None:
    ada, bob = await register(engine, "ada"), await register(engine, "bob")
    corpus = await create_corpus(ada)
    shared = await add_note(ada, "shared with bob", collection=corpus.id)
    hidden = await add_note(ada, "for ada alone")
    await ada.corpora.grant(corpus.id, "bob", Permission.READ)
    own = await add_note(bob, "of bob")
    assert [(await bob.document(each.id)).access for each in (own, shared)] == [Access.OWN, Access.READ]
    assert {each.name: each.access for each in (await bob.collections()).items}[corpus.name] is Access.READ
    done = await bob.library.edit_many(EVERYTHING, DocumentEdit(add_tags=("mine",)))
    assert (done.selected, done.done) == (1, 1), "a filter selects what may be changed"
    tried = await bob.library.edit_many(DocumentSelection(ids=(shared.id, hidden.id)), DocumentEdit(add_tags=("mine",)))
    assert sorted(each.code for each in tried.failures) == ["document_not_found", "insufficient_permissions"]
    with pytest.raises(ConfirmationRequired) as refused:
        await bob.library.remove_many(EVERYTHING, 3)
    assert refused.value.details["documents"] == 1
    await ada.corpora.grant(corpus.id, "bob", Permission.WRITE)
    assert (await bob.document(shared.id)).access is Access.WRITE
    assert (await bob.library.remove_many(EVERYTHING, 2)).done == 2
    assert [document.id for document in (await ada.documents(DocumentFilter())).items] == [hidden.id]


async def test_similar_documents_come_nearest_first_and_never_the_document_itself(engine: Engine) -> None:
    ada = await register(engine, "ada")
    await add_note(ada, "copper kettle for tea, of another account", title="Hidden kettle")
    kettle = await add_note(engine, "a copper kettle boils water for tea", title="Kettle")
    near = await add_note(engine, "tea needs water from a kettle of copper", title="Tea")
    await add_note(engine, "ships sail across the northern sea in winter", title="Ships")
    found = await engine.library.similar(kettle.id)
    assert found[0].document.id == near.id
    assert {hit.document.title for hit in found} <= {"Tea", "Ships"}
    assert len(await engine.library.similar(kettle.uid, 1)) == 1
    with pytest.raises(DocumentNotFound):
        await ada.library.similar(kettle.id)


async def test_a_document_without_vectors_has_similar_documents_by_the_words_of_its_title(local: LocalEngine) -> None:
    kettle = await add_note(local, "boils water", title="Copper kettle")
    near = await add_note(local, "a kettle of copper", title="Tea")
    found = await local.library._find_by_title(kettle.id, 5)
    assert [hit.document.id for hit in found] == [near.id]


async def test_an_edit_of_an_older_revision_is_refused_and_changes_nothing(engine: Engine) -> None:
    note = await add_note(engine, "first text", title="Plan")
    read = (await engine.document(note.id)).revision
    edited = await engine.edit(note.id, DocumentEdit(title="Plan B", expected=read))
    assert edited.title == "Plan B" and edited.revision != read
    for attempt in (
        engine.edit(note.id, DocumentEdit(title="Plan C", expected=read)),
        engine.update_note(note.id, "lost text", read),
    ):
        with pytest.raises(DocumentChanged):
            await attempt
    assert (await engine.document(note.id)).title == "Plan B"
    updated = await engine.update_note(note.id, "second text", edited.revision)
    assert updated.revision == (await engine.document(note.id)).revision != edited.revision
    assert await search_ids(engine, '"second text"') == [note.id]


async def test_of_concurrent_updates_of_one_revision_one_is_stored_and_the_others_are_told(engine: Engine) -> None:
    note = await add_note(engine, "zero")
    texts = [f"number {number} wins" for number in range(5)]
    asked = (engine.update_note(note.id, text, note.revision) for text in texts)
    results = await asyncio.gather(*asked, return_exceptions=True)
    stored = [text for text, result in zip(texts, results, strict=True) if not isinstance(result, BaseException)]
    assert len(stored) == 1, results
    assert all(isinstance(result, DocumentChanged) for result in results if isinstance(result, BaseException))
    assert [chunk.text for chunk in await engine.chunks(note.id)] == stored
