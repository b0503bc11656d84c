"""Values come back, compare and sort in the same way from SQLite and from PostgreSQL."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import KnowledgeError
from knowledge.model import (
    CollectionEdit,
    DocumentEdit,
    DocumentFilter,
    JobFilter,
    JobStatus,
    Json,
    NewCollection,
    NewNote,
    Query,
    SearchFilter,
    now,
)
from tests.support.engines import add_note, make_file, search_ids, wait_until_done

TITLES = ["Zebra", "apple", "Äpfel", "Apple", "_a", "a b", "a-b", "ab", "éclair", "zebra", "10", "9", "\U0001f34e", "ﬀ"]
METADATA: Json = {
    "z": 1, "a": 1.0, "big": 2**62, "small": 1e-300, "nested": {"b": [1, None, True], "a": {}}, "empty": "",
    "unicode": "Tee ☕ \U0001f375", "text null": "null", "number text": "1", "quote": "\"'\\u0000",
}  # fmt: skip


async def test_nul_characters_are_removed_from_everything_that_is_stored(engine: Engine) -> None:
    note = await add_note(
        engine,
        "tea\0 is green\0",
        title="T\0ea",
        metadata={"k\0ey": "va\0lue", "list": ["a\0b", {"c": "\0"}]},
        source_path="a\0b.txt",
    )
    assert (note.title, note.source_path) == ("Tea", "ab.txt")
    assert note.metadata == {"key": "value", "list": ["ab", {"c": ""}]}
    (chunk,) = await engine.chunks(note.id)
    assert "\0" not in chunk.text and "green" in chunk.text
    edited = await engine.edit(note.id, DocumentEdit(title="Cof\0fee", metadata={"x": "\0y"}))
    assert edited.title == "Coffee" and edited.metadata["x"] == "y"
    collection = await engine.create_collection(NewCollection(title="Te\0a", description="a\0b", metadata={"a": "\0"}))
    assert (collection.title, collection.description, collection.metadata) == ("Tea", "ab", {"a": ""})
    assert (await engine.edit_collection(collection.id, CollectionEdit(description="\0c"))).description == "c"
    assert await engine.verify() == []


async def test_a_file_name_with_a_nul_character_is_accepted_or_refused_alike(engine: Engine) -> None:
    job = await wait_until_done(engine, await engine.add(make_file("tea.txt", "tea \0 and milk")))
    assert job.status is JobStatus.COMPLETED and await search_ids(engine, "milk") == [job.document_id]


async def test_long_values_are_stored_whole(engine: Engine) -> None:
    long = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyzäöü", k=5000))  # no compression makes it short
    note = await add_note(
        engine, "tea", title=long, metadata={long: long}, url=f"https://example.org/{long}", source_path=f"{long}.txt"
    )
    found = await engine.document(note.id)
    assert (found.metadata, found.source_path) == ({long: long}, f"{long}.txt")
    assert found.url == f"https://example.org/{long}" and found.title == long[: len(found.title)]
    (item,) = (await engine.documents(DocumentFilter(source_path=f"{long}.txt"))).items
    assert item.id == note.id
    edited = await engine.edit(note.id, DocumentEdit(source_path=f"other/{long}", url=long))
    assert (edited.source_path, edited.url) == (f"other/{long}", long)
    collection = await engine.create_collection(NewCollection(title=long, description=long, url=long, source_type=long))
    assert (collection.description, collection.source_type) == (long, long)
    assert await engine.verify() == []


async def test_titles_sort_by_code_point(engine: Engine) -> None:
    for number, title in enumerate(TITLES):
        await engine.add(NewNote(text=f"note {number}", title=title))
    for job in (await engine.jobs(JobFilter())).items:
        await wait_until_done(engine, job)
    for descending in (False, True):
        wanted = DocumentFilter(sort="title", descending=descending, per_page=50)
        listed = [document.title for document in (await engine.documents(wanted)).items]
        assert listed == sorted(TITLES, reverse=descending)


async def test_collections_sort_by_code_point(engine: Engine) -> None:
    names = ["zebra", "apple", "äpfel", "a.b", "ab", "éclair"]
    for name in names:
        await engine.create_collection(NewCollection(title=name, name=name))
    assert [each.name for each in (await engine.collections()).items] == sorted(names)


async def test_names_that_differ_in_case_or_accents_are_different(engine: Engine) -> None:
    for name in ("tea", "Tea", "téa", "te\u0301a"):
        await engine.create_collection(NewCollection(title=name, name=name))
    assert len((await engine.collections()).items) == 4


async def test_metadata_comes_back_equal_and_in_order(engine: Engine) -> None:
    note = await add_note(engine, "tea", metadata=METADATA)
    found = (await engine.document(note.id)).metadata
    assert found == METADATA and list(found) == list(METADATA)
    assert isinstance(found["a"], float) and isinstance(found["z"], int)
    merged = (await engine.edit(note.id, DocumentEdit(metadata={"z": None, "new": {"b": 1, "a": 2}}))).metadata
    assert merged == {**{key: value for key, value in METADATA.items() if key != "z"}, "new": {"b": 1, "a": 2}}


async def test_times_are_utc_to_the_microsecond(engine: Engine) -> None:
    before = now()
    note = await add_note(engine, "tea")
    found = await engine.document(note.id)
    assert found.created_at.utcoffset() == timedelta(0) and before <= found.created_at <= now()
    assert found.created_at == note.created_at
    day = SearchFilter(date_from=datetime(2020, 1, 1, tzinfo=UTC))
    assert [hit.document.id for hit in (await engine.search(Query(text="tea", filter=day))).hits] == [note.id]


async def test_a_lone_surrogate_is_refused_and_leaves_nothing(local: LocalEngine) -> None:
    with pytest.raises((UnicodeEncodeError, KnowledgeError)):
        await add_note(local, "tea", source_path="\ud800")
    assert (await local.documents(DocumentFilter())).total == 0
    assert (await add_note(local, "tea")).title == "tea"


async def test_flags_default_to_false(engine: Engine) -> None:
    assert (await engine.create_collection(NewCollection(title="Tea"))).trusted is False


async def test_status_names_the_database_without_its_address(local: LocalEngine) -> None:
    status = await local.status()
    is_file = local._parts.database.path is not None
    assert status.database.startswith("SQLite 3." if is_file else "PostgreSQL 18.")
    assert status.database_bytes > 0 and "@" not in status.database
