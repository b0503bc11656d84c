"""What is deleted is gone from every answer at once, and from the files of PostgreSQL after VACUUM FULL."""

from __future__ import annotations

from pathlib import Path

from knowledge.config import Settings
from knowledge.model import Caller, DocumentFilter
from knowledge.testing import SharedParsers, make_test_engine
from tests.support.engines import add_file, search_ids
from tests.support.postgres import PostgresServer, read_all_rows

SECRET = "zqxjkvtea"


def find_files_with(folder: Path, word: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


async def test_a_removed_document_is_in_no_answer_at_once_and_in_no_table_file_after_a_vacuum(
    settings: Settings, database_url: str, parsers: SharedParsers, postgres: PostgresServer
) -> None:
    engine = make_test_engine(settings, parsers=parsers)
    engine.start()
    name = database_url.rsplit("/", 1)[1]
    try:
        caller = engine.as_caller(Caller())
        note = await add_file(caller, f"{SECRET}.txt", f"the {SECRET} is green", source_path=f"{SECRET}.txt")
        await caller.remove(note.id)
        assert await search_ids(caller, SECRET) == []
        assert (await caller.documents(DocumentFilter())).total == 0
        assert SECRET.encode() not in read_all_rows(database_url)
    finally:
        engine.close()
    postgres.run("CHECKPOINT")
    assert find_files_with(postgres.data / "base", SECRET), "dead rows stay in the files until they are vacuumed"
    postgres.run("VACUUM FULL", name)
    postgres.run("CHECKPOINT")
    assert find_files_with(postgres.data / "base", SECRET) == []
