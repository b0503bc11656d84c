"""Searches that are limited to trusted collections, in this process and over HTTP."""

from __future__ import annotations

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import InsufficientPermissions
from knowledge.model import CollectionEdit, NewCorpus, NewNote, Permission, Query, SearchFilter

WAIT_SECONDS = 30


async def add_note(engine: Engine, text: str, collection: str | int) -> int:
    ended = await engine.wait((await engine.add(NewNote(text=text, collection=collection))).id, WAIT_SECONDS)
    assert ended.document_id is not None
    return ended.document_id


async def find_texts(engine: Engine, *collections: str, trusted_only: bool = True) -> set[str]:
    wanted = SearchFilter(collections=collections, trusted_only=trusted_only)
    return {hit.text for hit in (await engine.search(Query(text="tea", filter=wanted))).hits}


async def test_only_trusted_collections_are_searched(engine: Engine) -> None:
    await add_note(engine, "Tea in the vault", "vault")
    await add_note(engine, "Tea in the street", "street")
    assert await find_texts(engine) == set()
    assert (await engine.edit_collection("vault", CollectionEdit(trusted=True))).trusted
    assert await find_texts(engine) == {"Tea in the vault"}
    assert await find_texts(engine, "street", "vault") == {"Tea in the vault"}
    assert await find_texts(engine, "street") == set()
    assert await find_texts(engine, trusted_only=False) == {"Tea in the vault", "Tea in the street"}
    assert not (await engine.edit_collection("vault", CollectionEdit(trusted=False))).trusted
    assert await find_texts(engine) == set()


async def test_another_account_cannot_make_its_documents_trusted(local: LocalEngine) -> None:
    people: dict[str, Engine] = {}
    for name in ("ada", "mallory"):
        await local.accounts.add(name)
        caller = await local.accounts.find_by_key((await local.accounts.issue_key(name, "test")).secret)
        assert caller is not None
        people[name] = local.as_caller(caller)
    ada, mallory = people["ada"], people["mallory"]
    corpus = await mallory.corpora.create(NewCorpus(title="Open", is_public=True))
    await add_note(mallory, "Tea by Mallory", corpus.id)
    await mallory.edit_collection(corpus.id, CollectionEdit(trusted=True))
    await mallory.corpora.grant(corpus.id, "ada", Permission.READ)
    assert await find_texts(ada, trusted_only=False) == {"Tea by Mallory"}
    assert await find_texts(ada) == set()
    await local.corpora.approve(corpus.id)
    assert await find_texts(ada) == {"Tea by Mallory"}
    with pytest.raises(InsufficientPermissions):
        await ada.edit_collection(corpus.id, CollectionEdit(trusted=True))
