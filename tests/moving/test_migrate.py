"""`knowledge migrate` moves a folder to PostgreSQL and back, resumes after a kill, and refuses what is unsafe."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.engine.sharing.leader import hold_data_folder
from knowledge.errors import DataMoved
from knowledge.model import Caller
from knowledge.testing import SharedParsers, make_test_engine
from tests.moving.conftest import NOTES, FilledFolder, read_answers, running
from tests.support.command_line import Shell
from tests.support.engines import add_note
from tests.support.postgres import PASSWORD, PostgresServer

MOVE_SECONDS = 120
MIN_ROWS = 200
OWN_DOCUMENTS = NOTES + 1
"""Of the operator; one document is of an account."""
FAILPOINTS = ("move.begun", "move.batch:3", "move.batch:12", "move.original:2", "move.copied", "move.marked")


def make_shell(data: Path, url: str | None = None, **more: str) -> Shell:
    database = {"KNOWLEDGE_DATABASE_URL": url} if url else {}
    return Shell({"KNOWLEDGE_DATA": str(data), "KNOWLEDGE_EMBEDDING": "none", **database, **more})


def count_documents(shell: Shell) -> int:
    """Start on the data, which must be possible, and return the number of documents."""
    return int(shell.run_json("status")["documents"])


async def require_same(engine: LocalEngine, folder: FilledFolder) -> None:
    """Compare all answers, and use the key and the session of before."""
    await engine.as_caller(Caller()).reindex()  # words of removed documents count until the index is built again
    answers = await read_answers(engine)
    assert answers == folder.answers
    caller = await engine.accounts.find_by_key(folder.key)
    session = await engine.sessions.find(folder.session)
    assert caller is not None and session is not None and session.caller.owner == caller.owner
    found = await engine.as_caller(Caller()).verify()
    assert found == []


async def test_a_folder_moves_to_postgresql_and_back_with_the_same_answers(
    folder: FilledFolder, url: str, tmp_path: Path, parsers: SharedParsers
) -> None:
    shared = tmp_path / "originals"
    report = make_shell(folder.data).run_json("migrate", "--to", url, "--originals", shared)
    assert report["copied_rows"] == sum(report["rows"].values()) > MIN_ROWS
    assert report["copied_originals"] == report["original_count"] > 40
    assert PASSWORD not in json.dumps(report)

    settings = Settings(data=tmp_path / "server", database_url=url, originals=shared, workers=2)
    with running(settings, parsers) as engine:
        await require_same(engine, folder)
        added = await add_note(engine.as_caller(Caller()), "a note after the move")
        assert added.id > max(document[0] for document in folder.answers["documents"]) + 1  # one was removed
        await engine.as_caller(Caller()).remove(added.id)

    back = tmp_path / "back"
    shell = make_shell(tmp_path / "server", url, KNOWLEDGE_ORIGINALS=str(shared))
    assert "Moved 42 documents" in shell.run_ok("migrate", "--to", f"folder:{back}")
    with running(Settings(data=back, workers=2), parsers) as engine:
        await require_same(engine, folder)
    with pytest.raises(DataMoved, match=f"was moved to the folder {back}"):
        make_test_engine(settings, parsers=parsers)


def test_the_old_folder_refuses_to_start_and_says_where_the_data_is(
    folder: FilledFolder, url: str, parsers: SharedParsers
) -> None:
    shell = make_shell(folder.data)
    said = shell.run_ok("migrate", "--to", url)
    assert "Set KNOWLEDGE_DATABASE_URL" in said and PASSWORD not in said
    refused = shell.run("status")
    assert refused.exit_code != 0 and "was moved to PostgreSQL 127.0.0.1:" in refused.output
    assert PASSWORD not in refused.output and "Traceback" not in refused.output
    with pytest.raises(DataMoved):
        make_test_engine(Settings(data=folder.data), parsers=parsers)
    again = shell.run_ok("migrate", "--to", url)
    assert "already moved" in again
    assert count_documents(make_shell(folder.data, url)) == OWN_DOCUMENTS  # the folder serves as scratch


def test_a_dry_run_says_what_would_happen_and_changes_nothing(folder: FilledFolder, url: str, tmp_path: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in folder.data.rglob("*") if path.is_file())
    shell = make_shell(folder.data)
    said = shell.run_ok("migrate", "--to", url, "--dry-run")
    assert "Would move 42 documents with 43 passages" in said and "takes about" in said and "stay in" in said
    report = shell.run_json("migrate", "--to", url, "--originals", tmp_path / "originals", "--dry-run")
    assert report["dry_run"] and report["seconds"] >= 0 and report["copied_originals"] == report["original_count"]
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    assert not (tmp_path / "originals").exists()
    after = sorted((path, path.stat().st_mtime_ns) for path in folder.data.rglob("*") if path.is_file())
    ignored = ("engine.lock", "knowledge.db-wal", "knowledge.db-shm")
    assert [each for each in after if each[0].name not in ignored] == [
        each for each in before if each[0].name not in ignored
    ]
    back = shell.run_json("migrate", "--to", f"folder:{tmp_path / 'copy'}", "--dry-run")
    assert back["rows"] == report["rows"] and not list(tmp_path.glob("copy*")) + list(tmp_path.glob(".knowledge*"))


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_killed_move_goes_on_where_it_stopped(folder: FilledFolder, url: str, tmp_path: Path, failpoint: str) -> None:
    originals = tmp_path / "originals"
    arguments = ("migrate", "--to", url, "--originals", str(originals), "--json")
    environment = {**os.environ, "KNOWLEDGE_DATA": str(folder.data), "KNOWLEDGE_FAILPOINT": failpoint}
    killed = subprocess.run(
        [sys.executable, "-m", "knowledge", *arguments],
        env=environment,
        capture_output=True,
        timeout=MOVE_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    half = make_shell(tmp_path / "server", url, KNOWLEDGE_ORIGINALS=str(originals)).run("status")
    assert half.exit_code != 0 and "is incomplete" in half.output

    report = make_shell(folder.data).run_json(*arguments[:-1])
    total = sum(report["rows"].values())
    expected = {"move.begun": (total, total), "move.copied": (0, 0), "move.marked": (0, 0)}
    least, most = expected.get(failpoint, (1, total))
    assert least <= report["copied_rows"] <= most
    if failpoint.startswith("move.batch"):
        assert report["copied_rows"] < total and report["copied_originals"] == 0
    if failpoint == "move.original:2":
        assert report["copied_originals"] == report["original_count"] - 2
    moved = make_shell(tmp_path / "server", url, KNOWLEDGE_ORIGINALS=str(originals))
    assert "No problems found" in moved.run_ok("verify")
    assert "was moved to" in make_shell(folder.data).run("status").output


def test_a_server_that_starts_on_the_old_folder_ends_an_unfinished_move(
    folder: FilledFolder, url: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "KNOWLEDGE_DATA": str(folder.data), "KNOWLEDGE_FAILPOINT": "move.batch:2"}
    command = [sys.executable, "-m", "knowledge", "migrate", "--to", url]
    subprocess.run(command, env=environment, capture_output=True, timeout=MOVE_SECONDS, check=False)
    shell = make_shell(folder.data)
    assert count_documents(shell) == OWN_DOCUMENTS
    refused = shell.run("migrate", "--to", url)
    assert refused.exit_code != 0 and "another unfinished move" in refused.output


def test_a_move_is_refused_while_a_server_uses_the_folder(folder: FilledFolder, url: str) -> None:
    with hold_data_folder(folder.data):
        refused = make_shell(folder.data).run("migrate", "--to", url)
    assert refused.exit_code != 0 and f"A server uses the data folder {folder.data}" in refused.output


async def test_a_move_is_refused_while_servers_use_the_database(
    url: str, tmp_path: Path, parsers: SharedParsers
) -> None:
    settings = Settings(data=tmp_path / "data", database_url=url, server_address="db-user.example:8000", workers=2)
    with running(settings, parsers):
        refused = make_shell(tmp_path / "other", url).run("migrate", "--to", f"folder:{tmp_path / 'back'}")
    assert refused.exit_code != 0 and "1 server uses PostgreSQL" in refused.output
    assert "db-user.example:8000" in refused.output and not (tmp_path / "back").exists()


def test_a_target_with_data_is_refused(folder: FilledFolder, url: str, tmp_path: Path) -> None:
    other = make_shell(tmp_path / "other", url)
    (tmp_path / "tea.txt").write_text("Tea is grown in Assam.")
    other.run_ok("add", tmp_path / "tea.txt")
    shell = make_shell(folder.data)
    for dry in ((), ("--dry-run",)):
        refused = shell.run("migrate", "--to", url, *dry)
        assert refused.exit_code != 0 and "is not empty: it has rows in" in refused.output
    refused = shell.run("migrate", "--to", f"folder:{tmp_path}")
    assert refused.exit_code != 0 and "is not empty" in refused.output
    assert count_documents(shell) == OWN_DOCUMENTS


def test_a_database_of_another_program_is_refused(folder: FilledFolder, url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE invoices (id int)")
    refused = make_shell(folder.data).run("migrate", "--to", url)
    assert refused.exit_code != 0 and "tables of another program: invoices" in refused.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--to", "/var/lib/knowledge"), "neither a database URL nor folder:PATH"),
        (("--to", "folder:"), "names no folder"),
        (("--to", "mysql://ada:s3cret@db/knowledge"), "begins with 'mysql'"),
        (("--to", "folder:/x", "--originals", "/y"), "needs a PostgreSQL database"),
    ],
)
def test_a_wrong_target_is_a_sentence(folder: FilledFolder, options: tuple[str, ...], says: str) -> None:
    refused = make_shell(folder.data).run("migrate", *options)
    assert refused.exit_code == 2 and says in refused.output and "s3cret" not in refused.output


def test_an_empty_folder_has_nothing_to_move(tmp_path: Path, url: str) -> None:
    refused = make_shell(tmp_path / "nothing").run("migrate", "--to", url)
    assert refused.exit_code != 0 and "There is no data" in refused.output and not (tmp_path / "nothing").exists()


def test_a_missing_original_is_found_before_anything_is_copied(folder: FilledFolder, url: str) -> None:
    next(path for path in (folder.data / "files").glob("??/*") if path.is_file()).unlink()
    refused = make_shell(folder.data).run("migrate", "--to", url)
    assert refused.exit_code != 0 and "1 of 42 originals are missing" in refused.output
    assert count_documents(make_shell(folder.data)) == OWN_DOCUMENTS


def test_a_row_that_changed_on_the_way_is_noticed(
    folder: FilledFolder, postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    arguments: tuple[Any, ...] = ("migrate", "--to", url)
    environment = {**os.environ, "KNOWLEDGE_DATA": str(folder.data), "KNOWLEDGE_FAILPOINT": "move.copied"}
    subprocess.run([sys.executable, "-m", "knowledge", *arguments], env=environment, capture_output=True, check=False)
    postgres.run("UPDATE chunks SET text = text || '.' WHERE id = 3", url.rpartition("/")[2])
    refused = make_shell(folder.data).run(*arguments)
    assert refused.exit_code != 0 and "The copy differs in chunks" in refused.output
    assert count_documents(make_shell(folder.data)) == OWN_DOCUMENTS


async def test_a_folder_whose_change_log_was_trimmed_wholly_is_indexed_after_the_move(
    folder: FilledFolder, url: str, tmp_path: Path, parsers: SharedParsers
) -> None:
    """Earlier versions deleted every change that the index had applied."""
    with closing(sqlite3.connect(folder.data / "knowledge.db")) as connection, connection:
        connection.execute("DELETE FROM changes")
        connection.execute("DELETE FROM settings WHERE name = 'changes_trimmed'")
    make_shell(folder.data).run_ok("migrate", "--to", url, "--originals", tmp_path / "originals")
    settings = Settings(data=tmp_path / "server", database_url=url, originals=tmp_path / "originals", workers=2)
    with running(settings, parsers) as engine:
        await require_same(engine, folder)
