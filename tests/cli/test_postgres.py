"""The command line on PostgreSQL: the same commands, and a sentence for every wrong setting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import Shell
from tests.support.postgres import PASSWORD, PostgresServer, find_free_port


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database(empty=True) as made:
        yield made


def make_shell(url: str, data: Path) -> Shell:
    return Shell({"KNOWLEDGE_DATABASE_URL": url, "KNOWLEDGE_DATA": str(data), "KNOWLEDGE_EMBEDDING": "none"})


def test_a_document_is_added_and_found(url: str, tmp_path: Path) -> None:
    shell = make_shell(url, tmp_path / "data")
    (tmp_path / "tea.txt").write_text("Tea is grown in Assam.")
    shell.run_ok("add", tmp_path / "tea.txt")
    assert "Assam" in shell.run_ok("search", "assam")
    assert "No problems found" in shell.run_ok("verify")
    assert not (tmp_path / "data" / "knowledge.db").exists()


def test_status_and_doctor_name_the_database_without_its_secrets(url: str, tmp_path: Path) -> None:
    shell = make_shell(url, tmp_path / "data")
    printed = shell.run_ok("status") + shell.run_ok("status", "--json")
    checked = shell.run("doctor").output
    assert "PostgreSQL 18." in printed and "PostgreSQL 18." in checked and "schema is up to date" in checked
    assert PASSWORD not in printed + checked


@pytest.mark.parametrize("command", [("status",), ("doctor",), ("search", "tea")])
def test_a_wrong_password_is_a_sentence_without_a_traceback(
    postgres: PostgresServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = make_shell(postgres.make_url("postgres", password="s3cret"), tmp_path).run(*command)
    assert refused.exit_code != 0 and "password authentication failed" in refused.output
    assert "Traceback" not in refused.output and "s3cret" not in refused.output


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://ada:s3cret@db/knowledge", "begins with 'mysql'"),
        ("postgresql+psycopg://ada:s3cret@127.0.0.1:{free_port}/knowledge", "cannot be reached"),
    ],
)
def test_a_wrong_address_is_a_sentence_without_a_traceback(tmp_path: Path, url: str, says: str) -> None:
    refused = make_shell(url.format(free_port=find_free_port()), tmp_path).run("status")
    assert refused.exit_code != 0 and says in refused.output
    assert "Traceback" not in refused.output and "s3cret" not in refused.output


def test_a_missing_driver_is_a_sentence_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in ("postgres", "failures"):
        monkeypatch.delitem(sys.modules, f"knowledge.store.postgres.{name}", raising=False)
    refused = make_shell("postgresql+psycopg://ada:s3cret@127.0.0.1/knowledge", tmp_path).run("status")
    assert refused.exit_code != 0 and "pip install 'knowledge-server[cluster]'" in refused.output
    assert "Traceback" not in refused.output
