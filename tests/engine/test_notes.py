"""Updating notes: in place, atomic, with id, collection and tags kept."""

from __future__ import annotations

import asyncio

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import DocumentNotFound, NotANote
from knowledge.model import DocumentFilter
from tests.support.engines import add_file, add_note, search_ids


async def test_an_updated_note_keeps_its_id_collection_and_tags(engine: Engine) -> None:
    note = await add_note(engine, "prefers long answers", collection="memory", tags=("style",))
    updated = await engine.update_note(note.id, "prefers bullet points")
    assert (updated.id, updated.uid, updated.collection, updated.tags) == (note.id, note.uid, "memory", ("style",))
    assert updated.title == "prefers bullet points"
    assert await search_ids(engine, "bullet") == [note.id]
    assert await search_ids(engine, '"long answers"') == []


async def test_a_given_title_is_kept_when_the_text_changes(engine: Engine) -> None:
    note = await add_note(engine, "first text", title="Preferences")
    assert (await engine.update_note(note.id, "second text")).title == "Preferences"


async def test_only_notes_can_be_updated(engine: Engine) -> None:
    file = await add_file(engine, "a.txt", "not a note")
    with pytest.raises(NotANote):
        await engine.update_note(file.id, "other")
    with pytest.raises(DocumentNotFound):
        await engine.update_note(10**9, "other")


async def test_concurrent_updates_end_with_exactly_one_of_the_texts(engine: Engine) -> None:
    note = await add_note(engine, "zero")
    texts = [f"number {number} wins" for number in range(6)]
    await asyncio.gather(*(engine.update_note(note.id, text) for text in texts))
    (chunk,) = await engine.chunks(note.id)
    assert chunk.text in texts
    assert await search_ids(engine, f'"{chunk.text}"') == [note.id]
    assert (await engine.documents(DocumentFilter())).total == 1
    assert await engine.verify() == []


async def test_a_note_is_found_exactly_once_at_any_time_during_an_update(local: LocalEngine) -> None:
    note = await add_note(local, "harbour number 0", title="Ledger")
    for number in range(1, 8):
        changing = asyncio.create_task(local.update_note(note.id, f"harbour number {number}"))
        while not changing.done():
            assert await search_ids(local, "harbour") == [note.id]
            await asyncio.sleep(0)
        await changing
    assert await local.verify() == []
