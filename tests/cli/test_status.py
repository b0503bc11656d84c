"""The commands for jobs, collections and maintenance, and the exit codes of errors."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import ServerStatus, now
from knowledge.surfaces.cli import cli
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.commands.status import format_server
from knowledge.surfaces.http.server import open_sockets
from tests.support.command_line import Shell, serve_engine


@pytest.fixture
def shell(local: LocalEngine, settings: Settings) -> Iterator[Shell]:
    with serve_engine(local, settings) as address:
        yield Shell({"KB_ENGINE_URL": address})


def test_a_failed_job_is_listed_with_its_reason(shell: Shell, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("   ")
    assert shell.run("add", broken).exit_code == cli_errors.FAILED
    assert "No jobs found." in shell.run("jobs", "--status", "queued").stderr
    failed = shell.run_json("jobs", "--status", "failed")["jobs"]
    assert [job["filename"] for job in failed] == ["broken.json"]
    assert failed[0]["error"]["message"] in shell.run_ok("jobs", "show", failed[0]["id"])


def test_jobs_are_followed_to_their_end(shell: Shell, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.md" for name in ("one", "two", "three")]
    for path in paths:
        path.write_text(f"# {path.stem}\n\nSome text about {path.stem}.")
    accepted = shell.run_json("add", *paths, "--no-wait")
    assert len(accepted["accepted"]) + len(accepted["added"]) == 3
    shell.run_ok("jobs", "--follow")
    assert shell.run_json("status")["documents"] == 3
    assert shell.run("jobs", "--follow").stderr == "No job is queued or running.\n"


def test_a_job_that_has_ended_can_be_neither_cancelled_nor_retried(shell: Shell) -> None:
    shell.run_ok("note", "Tea.")
    assert shell.run("jobs", "cancel", "1").exit_code == cli_errors.FAILED
    assert shell.run("jobs", "retry", "1").exit_code == cli_errors.FAILED
    assert shell.run("jobs", "retry", "77").exit_code == cli_errors.NOT_FOUND
    assert shell.run("jobs", "cancel", "nonsense").exit_code == cli_errors.USAGE


def test_collections_are_created_renamed_and_removed(shell: Shell) -> None:
    made = shell.run_json("collections", "create", "House papers", "--description", "Bills")
    assert (made["name"], made["description"]) == ("house-papers", "Bills")
    shell.run_ok("collections", "rename", "house-papers", "Papers of the house")
    assert "Papers of the house" in shell.run_ok("collections")
    shell.run_ok("note", "Tea.", "--collection", "house-papers")
    assert shell.run("collections", "remove", "house-papers").exit_code == cli_errors.USAGE
    assert shell.run_json("collections", "remove", "house-papers", "--yes")["documents"] == 1
    assert shell.run("collections", "remove", "house-papers", "--yes").exit_code == cli_errors.NOT_FOUND


def test_a_search_can_be_limited_to_trusted_collections(shell: Shell) -> None:
    shell.run_ok("note", "Tea in the vault.", "--collection", "vault")
    shell.run_ok("note", "Tea in the street.", "--collection", "street")
    assert shell.run_json("search", "tea", "--trusted-only")["results"] == []
    assert shell.run_json("collections", "trust", "vault")["trusted"] is True
    [hit] = shell.run_json("search", "tea", "--trusted-only")["results"]
    assert hit["collection"] == "vault"
    assert shell.run_ok("collections", "trust", "vault", "--off").startswith("No longer trusts collection ")


def test_status_shows_the_number_of_documents(shell: Shell) -> None:
    shell.run_ok("note", "Tea.")
    printed = shell.run_ok("status")
    assert "healthy" in printed and "documents    1" in printed
    assert "memory" in printed and "child process" in printed
    status = shell.run_json("status")
    assert status["queue"] == {"queued": 0, "processing": 0, "failed": 0}
    assert set(status["processes"]) == {"server_bytes", "children", "children_bytes"}
    assert status["processes"]["server_bytes"] > 1 << 20


def test_verify_is_clean_until_a_file_is_lost(shell: Shell, settings: Settings) -> None:
    shell.run_ok("note", "Tea.")
    assert shell.run_ok("verify") == "No problems found: database, index and files are consistent.\n"
    for path in (settings.data / "files").rglob("*"):
        if path.is_file():
            path.unlink()
    result = shell.run("verify", "--json")
    assert result.exit_code == cli_errors.FAILED
    assert [finding["part"] for finding in json.loads(result.stdout)["findings"]] == ["files"]


def test_reindex_keeps_everything_findable(shell: Shell) -> None:
    shell.run_ok("note", "Tea is at four.")
    assert shell.run_json("reindex") == {"reindexed": True, "model": None}
    assert shell.run_json("search", "tea")["returned"] == 1


def test_reindex_switches_to_another_model(shell: Shell) -> None:
    shell.run_ok("note", "Tea is at four.")
    assert shell.run_json("reindex", "--model", "other") == {"reindexed": True, "model": "other"}
    assert shell.run_json("search", "tea", "--mode", "vector")["returned"] == 1
    assert "other, 64 dimensions" in shell.run_ok("status")
    assert "The model other is in use" in shell.run_ok("reindex", "--model", "other")
    assert shell.run("reindex", "--model", "none").exit_code == cli_errors.USAGE
    assert shell.run("reindex", "--no-wait").exit_code == cli_errors.USAGE


def test_the_folder_of_a_model_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from knowledge.surfaces.cli.commands.reindex import make_folder_absolute

    monkeypatch.chdir(tmp_path)
    assert make_folder_absolute("dir:models/minilm") == f"dir:{tmp_path / 'models' / 'minilm'}"
    assert make_folder_absolute("hf:somebody/model") == "hf:somebody/model"


def test_a_backup_is_restored_into_an_empty_folder_only(shell: Shell, tmp_path: Path) -> None:
    shell.run_ok("note", "Tea is at four.")
    archive, home = tmp_path / "all.tar", tmp_path / "restored"
    shell.run_ok("backup", archive)
    assert tarfile.is_tarfile(archive)
    assert shell.run("backup", archive).exit_code == cli_errors.FAILED
    shell.run_ok("restore", archive, "--data", home)
    assert (home / "knowledge.db").exists()
    assert shell.run("restore", archive, "--data", home).exit_code == cli_errors.FAILED
    assert shell.run("restore", tmp_path / "gone.tar", "--data", home).exit_code == cli_errors.NOT_FOUND


def test_an_unreachable_engine_is_exit_code_4() -> None:
    sockets = open_sockets("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    sockets[0].close()
    result = Shell({"KB_ENGINE_URL": f"http://127.0.0.1:{port}"}).run("status")
    assert (result.exit_code, result.stdout) == (cli_errors.UNREACHABLE, "")
    assert "Traceback" not in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_wrong_key_is_exit_code_5(local: LocalEngine, settings: Settings) -> None:
    guarded = settings.model_copy(update={"api_key": SecretStr("right")})
    with serve_engine(local, guarded) as address:
        assert Shell({"KB_ENGINE_URL": address, "KB_API_KEY": "wrong"}).run("status").exit_code == cli_errors.REFUSED
        assert Shell({"KB_ENGINE_URL": address, "KB_API_KEY": "right"}).run("status").exit_code == cli_errors.OK


def test_an_invalid_setting_is_reported_by_name() -> None:
    result = Shell({"KNOWLEDGE_PORT": "many"}).run("status")
    assert result.exit_code == cli_errors.USAGE and "KNOWLEDGE_PORT" in result.stderr


def test_an_unexpected_error_is_one_line_that_names_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    from knowledge.surfaces.cli.session import CliSession

    monkeypatch.setattr(CliSession, "run", lambda *_: 1 / 0)
    result = Shell({}).run("status")
    assert result.exit_code == cli_errors.FAILED
    assert "--debug" in result.stderr and "Traceback" not in result.stderr
    assert "Traceback" in Shell({}).run("status", "--debug").stderr


def test_a_data_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    result = Shell({"KNOWLEDGE_EMBEDDING": "none"}).run("status", "--data", tmp_path / "file" / "data")
    assert result.exit_code == cli_errors.FAILED
    assert "Traceback" not in result.output and len(result.stderr.splitlines()) == 1


def test_the_doctor_has_the_fix_for_a_broken_database(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "knowledge.db").write_bytes(b"this is no database " * 100)
    result = Shell({"KNOWLEDGE_EMBEDDING": "none", "KNOWLEDGE_PORT": "0"}).run("doctor", "--data", data, "--json")
    assert result.exit_code == cli_errors.FAILED
    wrong = {check["about"]: check for check in json.loads(result.stdout)["checks"] if not check["ok"]}
    assert "cannot be read" in wrong["database"]["says"] and "knowledge restore" in wrong["database"]["mend"]


def test_a_broken_database_is_reported_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "knowledge.db").write_bytes(b"this is no database " * 100)
    result = Shell({"KNOWLEDGE_EMBEDDING": "none"}).run("status", "--data", tmp_path)
    assert result.exit_code == cli_errors.FAILED
    assert result.stderr.startswith("Database error") and len(result.stderr.splitlines()) == 1


def test_the_doctor_checks_a_knowledge_base_in_use(shell: Shell) -> None:
    shell.run_ok("note", "Tea is at four.")
    checked = shell.run_json("doctor")
    assert checked["healthy"]
    assert "The engine answers: 1 document." in [check["says"] for check in checked["checks"]]


def test_the_doctor_finds_no_problem_in_a_new_installation(tmp_path: Path) -> None:
    checked = Shell({"KNOWLEDGE_PORT": "0"}).run_json("doctor", "--data", tmp_path / "data")
    assert checked["healthy"], [check for check in checked["checks"] if not check["ok"]]
    assert {check["about"] for check in checked["checks"]} >= {"versions", "clock", "data folder", "disk", "model"}
    assert not (tmp_path / "data").exists()


def test_the_doctor_reports_a_port_in_use(tmp_path: Path) -> None:
    sockets = open_sockets("127.0.0.1", 0)
    try:
        port = str(sockets[0].getsockname()[1])
        result = Shell({"KNOWLEDGE_PORT": port}).run("doctor", "--data", tmp_path / "data")
    finally:
        sockets[0].close()
    assert result.exit_code == cli_errors.FAILED
    assert "wrong  port: The server cannot listen" in result.stdout and "knowledge serve --port" in result.stdout


def test_extract_prints_the_text_without_storing_it(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html><title>Tea</title><body><h1>Tea</h1><p>Tea is at <b>four</b>.</p></body></html>")
    shell = Shell({"KNOWLEDGE_DATA": str(tmp_path / "data")})
    assert "Tea is at **four**." in shell.run_ok("extract", page)
    extracted = shell.run_json("extract", page)
    assert (extracted["doc_type"], extracted["title"], len(extracted["pages"])) == ("html", "Tea", 1)
    assert shell.run("extract", tmp_path / "gone.html").exit_code == cli_errors.NOT_FOUND
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(("shell_name", "line"), [("bash", "complete -o"), ("zsh", "#compdef"), ("fish", "complete ")])
def test_a_completion_script_exists_for_each_shell(shell_name: str, line: str) -> None:
    assert line in Shell({}).run_ok("completion", shell_name)


def test_completion_knows_the_commands() -> None:
    from click.shell_completion import ShellComplete

    completer = ShellComplete(cli, {}, "knowledge", "_KNOWLEDGE_COMPLETE")
    assert {item.value for item in completer.get_completions([], "re")} == {"read", "remove", "reindex", "restore"}
    assert "--collection" in {item.value for item in completer.get_completions(["add"], "--c")}


@pytest.mark.parametrize("name", sorted(cli.list_commands(click.Context(cli))))
def test_every_command_has_examples_and_the_option_json(name: str) -> None:
    printed = Shell({}).run_ok(name, "--help")
    assert "Examples:" in printed
    assert "--json" in printed or name == "completion"


def make_server(*, role: str = "all", ready: bool = True, lag: int = 0) -> ServerStatus:
    return ServerStatus("a1", "one:8000", "1.2", role, ready, lag, now(), live=True)


@pytest.mark.parametrize(
    ("server", "line"),
    [
        (make_server(), "server a1 at one:8000, all, version 1.2: ready, 0 changes behind"),
        (make_server(ready=False, lag=7), "server a1 at one:8000, all, version 1.2: not ready, 7 changes behind"),
        (make_server(role="workers-only"), "server a1 at one:8000, workers-only, version 1.2: runs jobs"),
    ],
)
def test_status_describes_each_server_in_a_line(server: ServerStatus, line: str) -> None:
    assert format_server(server) == line
