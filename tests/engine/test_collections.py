"""Collections: names, edits, removal and owners."""

from __future__ import annotations

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import CollectionNotFound, InvalidParameter, NameTaken
from knowledge.model import CollectionEdit, DocumentFilter, NewCollection, Query, Scope, SearchFilter
from tests.support.engines import add_note, search_ids


async def test_a_collection_is_created_by_its_first_document(engine: Engine) -> None:
    await add_note(engine, "tea at noon", collection="memory")
    collection = await engine.collection("memory")
    assert (collection.document_count, collection.chunk_count) == (1, 1)


async def test_search_is_restricted_to_the_collection(engine: Engine) -> None:
    await add_note(engine, "tea in the kitchen")
    memory = await add_note(engine, "tea at noon", collection="memory")
    assert await search_ids(engine, "tea", collections=("memory",)) == [memory.id]


async def test_the_name_comes_from_the_title_and_gets_a_number_if_taken(engine: Engine) -> None:
    first = await engine.create_collection(NewCollection(title="Research Papers"))
    second = await engine.create_collection(NewCollection(title="Research papers!"))
    assert (first.name, second.name) == ("research-papers", "research-papers-2")
    assert first.title == "Research Papers"
    with pytest.raises(NameTaken):
        await engine.create_collection(NewCollection(title="x", name="research-papers"))


@pytest.mark.parametrize("name", ["", "a/b", "a,b", "x" * 101, "42", "a:b", "tab\there"])
async def test_an_invalid_collection_name_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(InvalidParameter):
        await engine.create_collection(NewCollection(title="x", name=name))


async def test_a_collection_is_found_by_id_uuid_and_name(engine: Engine) -> None:
    made = await engine.create_collection(NewCollection(title="Books", description="for books"))
    for ref in (made.id, made.uid, made.name):
        assert await engine.collection(ref) == made
    with pytest.raises(CollectionNotFound):
        await engine.collection("no such collection")


async def test_a_collection_is_renamed_and_described(engine: Engine) -> None:
    made = await engine.create_collection(NewCollection(title="Books", metadata={"a": 1}))
    edited = await engine.edit_collection(made.id, CollectionEdit(title="Novels", metadata={"b": 2}))
    assert (edited.title, edited.name, edited.metadata) == ("Novels", "books", {"a": 1, "b": 2})


async def test_removing_a_collection_removes_its_documents(engine: Engine) -> None:
    for number in range(3):
        await add_note(engine, f"page {number}", collection="old")
    kept = await add_note(engine, "page to keep")
    removed = await engine.remove_collection("old")
    assert (removed.documents, removed.chunks) == (3, 3)
    assert [document.id for document in (await engine.documents(DocumentFilter())).items] == [kept.id]
    assert await search_ids(engine, "page") == [kept.id]
    assert await engine.verify() == []


async def test_each_owner_sees_only_their_own_and_shared_collections(local: LocalEngine) -> None:
    ada, bob = [local.with_scope(Scope((await local.accounts.add(name)).id)) for name in ("ada", "bob")]
    hers = await add_note(ada, "a secret garden")
    await add_note(bob, "a public garden")
    assert await search_ids(ada, "garden") == [hers.id]
    assert (await bob.status()).documents == 1
    shared = (await ada.collection("documents")).id
    guest = local.with_scope(Scope(owner=3, collections=frozenset({shared})))
    answer = await guest.search(Query(text="garden", filter=SearchFilter()))
    assert [hit.document.id for hit in answer.hits] == [hers.id]


async def test_the_uid_of_another_owners_collection_is_refused_as_taken(local: LocalEngine) -> None:
    ada, bob = [local.with_scope(Scope((await local.accounts.add(name)).id)) for name in ("ada", "bob")]
    hers = await ada.create_collection(NewCollection(title="Garden"))
    with pytest.raises(NameTaken, match=str(hers.uid)):
        await bob.create_collection(NewCollection(title="Garden", uid=hers.uid))
    assert (await ada.create_collection(NewCollection(title="Garden", uid=hers.uid))).id == hers.id
