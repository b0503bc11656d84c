"""The rooms of the house: imports point down, and third parties stay where they are needed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "knowledge"

FLOORS: list[set[str]] = [
    {"__main__"},
    {"testing"},
    {"surfaces"},
    {"app"},
    {"toolsets"},
    {"engine"},
    {"wire"},
    {"split", "analyse"},
    {"extract", "embed", "store", "index"},
    {"stop_words", "scanning", "config", "failpoints"},
    {"errors"},
    {"crawls"},
    {"model"},
]
"""From the top: a room may use what is below it, and nothing beside it."""

THIRD_PARTIES: dict[str, set[str]] = {
    "sqlalchemy": {"store", "engine"},
    "alembic": {"store"},
    "tantivy": {"index"},
    "faiss": {"index"},
    "onnxruntime": {"embed"},
    "onnx": {"embed"},
    "tokenizers": {"embed", "split", "app"},
    "Stemmer": {"analyse"},
    "mcp": {"surfaces"},
    "mcp_types": {"surfaces"},
    "fastapi": {"surfaces"},
    "starlette": {"surfaces"},
    "uvicorn": {"surfaces"},
    "click": {"surfaces"},
    "rich": {"surfaces"},
    "pypdfium2": {"extract"},
    "liteparse": {"extract"},
    "office_oxide": {"extract"},
    "tesserocr": {"extract"},
    "selectolax": {"extract", "engine"},
    "argon2": {"engine", "surfaces", "store"},
}


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def floor(name: str) -> int:
    return next((number for number, rooms in enumerate(FLOORS) if name in rooms), -1)


@cache
def imported(path: Path) -> list[list[str]]:
    return list(_imported(path))


def _imported(path: Path) -> Iterator[list[str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} imports relatively"
            module = (node.module or "").split(".")
            yield from ([*module, alias.name] for alias in node.names)


def test_every_room_has_a_floor() -> None:
    assert {room(path) for path in files()} - {"__init__"} <= set().union(*FLOORS)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    here = room(path)
    for target in imported(path):
        if target[0] != "knowledge" or len(target) < 2 or here == "__init__":
            continue
        there = target[1]
        if there == here or floor(there) < 0:
            continue
        assert floor(there) > floor(here), f"{path.relative_to(PACKAGE)} must not use {there}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_third_parties_stay_in_their_rooms(path: Path) -> None:
    for target in imported(path):
        rooms = THIRD_PARTIES.get(target[0])
        assert rooms is None or room(path) in rooms, f"{path.relative_to(PACKAGE)} must not import {target[0]}"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_is_asking_to_be_two(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 500


def test_the_nouns_import_nothing_of_ours() -> None:
    allowed = {*sys.stdlib_module_names, "knowledge"}
    for path in sorted((PACKAGE / "model").glob("*.py")):
        assert all(target[0] in allowed for target in imported(path))
