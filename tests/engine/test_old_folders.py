"""A data folder of an earlier version answers as before; one of a newer version is refused and left untouched."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.errors import StorageFailed
from knowledge.model import Query, SearchMode
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import add_note
from tests.support.old_folders import DUMPS, NOTE_TEXT, restore_dump


@pytest.mark.only_sqlite(reason="earlier versions had no PostgreSQL")
@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
async def test_an_older_folder_answers_as_before(dump: Path, settings: Settings, parsers: SharedParsers) -> None:
    restore_dump(dump, settings.data)
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    try:
        for mode in (SearchMode.TEXT, SearchMode.VECTOR, SearchMode.HYBRID):
            (hit,) = (await engine.search(Query(text="kitchen tea", mode=mode))).hits
            assert (hit.document.id, hit.document.title, hit.chunk.text) == (1, "Old tea", NOTE_TEXT)
        assert b"".join([piece async for piece in (await engine.original(1)).pieces]) == NOTE_TEXT.encode()
        assert (await engine.update_note(1, "coffee in the kitchen")).id == 1
        assert (await add_note(engine, "milk")).id == 2
        assert await engine.verify() == []
    finally:
        await asyncio.to_thread(engine.close)


@pytest.mark.only_sqlite(reason="compares the files of the database")
def test_a_folder_of_a_newer_version_is_refused_and_left_untouched(settings: Settings) -> None:
    path = restore_dump(DUMPS[-1], settings.data)
    with sqlite3.connect(path) as newer:
        newer.execute("UPDATE alembic_version SET version_num = '9999'")
        newer.execute("CREATE TABLE of_tomorrow (secret TEXT)")
    newer.close()
    before = digest_files(settings.data)
    with pytest.raises(StorageFailed, match="newer version"):
        make_test_engine(settings)
    assert digest_files(settings.data) == before


def digest_files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
