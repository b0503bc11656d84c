"""Every requirement is named by a test, and tests name no other requirements."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.toolsets import make_registry

HERE = Path(__file__).parent


def read_requirements() -> set[str]:
    with (HERE / "requirements.toml").open("rb") as file:
        listed = tomllib.load(file)
    return {f"{contract}.{name}" for contract, table in listed.items() for name in list_names(table)}


def list_names(table: dict[str, object], prefix: str = "") -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from list_names(value, f"{prefix}{key}.")
        else:
            assert isinstance(value, str) and value.endswith("."), f"{prefix}{key} is not a sentence"
            yield f"{prefix}{key}"


def find_marked_requirements() -> set[str]:
    """Return the requirements that the marks of tests name."""
    return {
        argument.value
        for path in HERE.parent.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement"
        for argument in node.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_every_requirement_has_a_test() -> None:
    assert sorted(read_requirements() - find_marked_requirements()) == []


def test_no_test_names_an_unknown_requirement() -> None:
    assert sorted(find_marked_requirements() - read_requirements()) == []


@pytest.mark.parametrize("toolset", ["knowledge", "manager"])
def test_every_tool_is_called_on_every_transport(toolset: str) -> None:
    source = (HERE / toolset / "test_transports.py").read_text("utf-8")
    tests = {node.name for node in ast.parse(source).body if isinstance(node, ast.AsyncFunctionDef)}
    names = [tool.name.replace("-", "_") for tool in make_registry().toolsets[toolset].tools]
    assert [name for name in names if f"test_{name}_answers_on_every_transport" not in tests] == []
