"""Contract 003: the command `sage`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sage.cli import cli
from tests.contracts.sage.content_folder import write_pages


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_pages(tmp_path / "content")
    file = tmp_path / "sage.yaml"
    file.write_text("sage:\n  content: content\n", "utf-8")
    monkeypatch.setenv("SAGE_CONFIG", str(file))
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


@pytest.mark.requirement("003.command.get")
def test_get_prints_a_topic_or_a_layer() -> None:
    assert run("get", "core", "principles").stdout.startswith("# Core Principles\n")
    assert "# Defaults" in run("get", "core").stdout
    assert run_json("get", "frameworks", "timeout")["metadata"]["files_loaded"] == 1


@pytest.mark.requirement("003.command.search")
def test_search_prints_the_matching_pages() -> None:
    assert "content/frameworks/resilience/timeout_patterns.md  Timeout Patterns" in run("search", "deadline").stdout
    assert run_json("search", "deadline", "--limit", "1")["total"] == 1
    assert "No results." in run("search", "xylophone").stderr


@pytest.mark.requirement("003.command.context")
def test_context_prints_relevant_sections_within_the_budget() -> None:
    assert "# Python" in run("context", "coding").stdout
    answer = run_json("context", "coding", "--language", "rust", "--budget", "50")
    assert answer["token_count"] <= 50
    assert "guidelines/python" not in answer["sections"]


@pytest.mark.requirement("003.command.info")
def test_info_prints_the_number_of_pages() -> None:
    assert "5 pages" in run("info").stdout
    assert run_json("info")["knowledge_base"]["content_files"] == 5


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("get", "core", "nonsense"), 3), (("get", "secret"), 2), (("search", "?!"), 2), (("context", "sleeping"), 2)],
)
def test_an_error_prints_a_message_and_sets_the_exit_code(arguments: tuple[str, ...], code: int) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stderr and not result.stdout
    assert "Traceback" not in result.stderr


def test_an_error_in_json_has_the_contracts_format() -> None:
    assert run_json("get", "core", "principels")["error"]["details"]["near"] == ["core/principles"]


def test_an_invalid_configuration_prints_the_key(configuration: Path) -> None:
    configuration.write_text("mcp:\n  port: http\n", "utf-8")
    result = run("info")
    assert result.exit_code == 1
    assert "mcp.port" in result.stderr


def test_a_disabled_tool_reports_that_it_is_disabled(configuration: Path) -> None:
    configuration.write_text("mcp:\n  capabilities: [search]\n", "utf-8")
    assert "is disabled" in run("get", "core").stderr
