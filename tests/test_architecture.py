"""The architecture: imports point down, packages and modules have a readable size, one name means one thing."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "knowledge"

LAYERS: list[set[str]] = [
    {"__main__"},
    {"testing"},
    {"surfaces"},
    {"app"},
    {"toolsets"},
    {"engine"},
    {"wire"},
    {"split", "text"},
    {"extract", "embed", "store", "index"},
    {"config", "failpoints"},
    {"errors"},
    {"model"},
]
"""From the top: a package may import the layers below its own, and nothing beside it."""

THIRD_PARTIES: dict[str, set[str]] = {
    "sqlalchemy": {"store", "engine"},
    "alembic": {"store"},
    "tantivy": {"index"},
    "faiss": {"index"},
    "onnxruntime": {"embed"},
    "onnx": {"embed"},
    "tokenizers": {"embed", "split", "app"},
    "Stemmer": {"text"},
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
MAX_MODULES, MAX_LINES, MIN_LINES = 20, 500, 40


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name below `knowledge`; a package by the name of its folder."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[list[str]]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            yield from ([*module, alias.name] for alias in node.names)


def imported_modules(path: Path) -> set[str]:
    """The modules of ours that a file imports, by dotted name."""
    found = set()
    for target in imports(path):
        if target[0] == "knowledge":
            names = (".".join(target[1:end]) for end in range(len(target), 1, -1))
            found |= {next((name for name in names if name in modules()), "")} - {""}
    return found


def layer(name: str) -> int:
    return next((number for number, packages in enumerate(LAYERS) if name in packages), -1)


def line_count(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_every_package_has_a_layer() -> None:
    assert {name.split(".")[0] for name in modules() if name} <= set().union(*LAYERS)


def test_imports_are_absolute_and_point_down() -> None:
    offenders = []
    for name, path in modules().items():
        here = name.split(".")[0]
        offenders += [f"{name} imports relatively" for node in ast.walk(tree(path)) if getattr(node, "level", 0)]
        for target in imported_modules(path) if here else ():
            there = target.split(".")[0]
            if there != here and layer(there) <= layer(here):
                offenders.append(f"{name} imports {target}")
    assert offenders == []


def test_third_parties_are_imported_by_their_packages_only() -> None:
    assert [
        f"{name} imports {target[0]}"
        for name, path in modules().items()
        for target in imports(path)
        if target[0] in THIRD_PARTIES and name.split(".")[0] not in THIRD_PARTIES[target[0]]
    ] == []


def test_domain_types_import_nothing_but_the_standard_library() -> None:
    allowed = {*sys.stdlib_module_names, "knowledge"}
    models = {name: path for name, path in modules().items() if name.split(".")[0] == "model"}
    assert [name for name, path in models.items() if any(target[0] not in allowed for target in imports(path))] == []


def test_packages_and_modules_have_a_readable_size() -> None:
    sizes: defaultdict[Path, int] = defaultdict(int)
    for path in modules().values():
        sizes[path.parent] += path.name != "__init__.py"
    crowded = [f"{folder.relative_to(PACKAGE)}: {count}" for folder, count in sizes.items() if count > MAX_MODULES]
    long = [f"{name}: {line_count(path)}" for name, path in modules().items() if line_count(path) > MAX_LINES]
    assert (crowded, long) == ([], [])
