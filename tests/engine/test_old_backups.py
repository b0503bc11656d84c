"""A backup that any earlier version has made is restored, and answers as before."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sqlite3
import tarfile
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.backup import DATABASE_MEMBER, FILES_FOLDER, MANIFEST_MEMBER, PRODUCT, check_archive
from knowledge.engine.moving.places import DataPlace
from knowledge.engine.moving.progress import SilentProgress
from knowledge.engine.moving.restore import restore_into
from knowledge.model import Query, SearchMode
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.old_folders import DUMPS, NOTE_TEXT, restore_dump


def make_old_backup(dump: Path, folder: Path) -> bytes:
    """Return the archive of a data folder of an earlier version."""
    path = restore_dump(dump, folder)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    database, original = path.read_bytes(), NOTE_TEXT.encode()
    manifest = {"product": PRODUCT, "database_sha256": hashlib.sha256(database).hexdigest(), "originals": 1}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in (
            (MANIFEST_MEMBER, json.dumps(manifest).encode()),
            (DATABASE_MEMBER, database),
            (f"{FILES_FOLDER}/{hashlib.sha256(original).hexdigest()}", original),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.only_sqlite(reason="earlier versions had no PostgreSQL")
@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
async def test_a_backup_of_an_older_version_is_restored(
    dump: Path, settings: Settings, parsers: SharedParsers, tmp_path: Path
) -> None:
    archive = make_old_backup(dump, tmp_path / "old")
    check_archive(io.BytesIO(archive))
    restored = settings.model_copy(update={"data": tmp_path / "restored"})
    restore_into(io.BytesIO(archive), DataPlace(restored.data), SilentProgress())
    engine = make_test_engine(restored, parsers=parsers)
    engine.start()
    try:
        (hit,) = (await engine.search(Query(text="kitchen tea", mode=SearchMode.TEXT))).hits
        assert hit.chunk.text == NOTE_TEXT
        assert await engine.verify() == []
    finally:
        await asyncio.to_thread(engine.close)
