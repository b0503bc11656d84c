"""The architecture: imports point down, packages and modules have a readable size, one name means one thing."""

from __future__ import annotations

import ast
import re
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
    {"config", "failpoints", "filesystem", "retry_after"},
    {"errors"},
    {"model"},
]
"""From the top: a package may import the layers below its own, and nothing beside it."""

THIRD_PARTIES: dict[str, set[str]] = {
    "sqlalchemy": {"store"},
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
PRIVATE_NAMES_ALLOWED = {"mcp"}
"""Third parties whose private names are still imported."""
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
    return targets_of(tree(path))


def targets_of(within: ast.AST) -> Iterator[list[str]]:
    for node in ast.walk(within):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            yield from ([*module, alias.name] for alias in node.names)


def imported_modules(path: Path) -> set[str]:
    """The modules of ours that a file imports, by dotted name."""
    return imported_from(tree(path))


def imported_from(within: ast.AST) -> set[str]:
    found = set()
    for target in targets_of(within):
        if target[0] == "knowledge":
            names = (".".join(target[1:end]) for end in range(len(target), 1, -1))
            found |= {next((name for name in names if name in modules()), "")} - {""}
    return found


def module_level_imports(path: Path) -> set[str]:
    """The modules of ours that a file imports when it is loaded, or would without `if TYPE_CHECKING`."""
    outer = [node for node in tree(path).body if isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.Try)]
    within = ast.Module(body=[*outer], type_ignores=[])
    return imported_from(within)


def find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """The modules that lie on a cycle of imports."""
    left = {name: set(targets) for name, targets in edges.items()}
    while True:
        leaves = {name for name, targets in left.items() if not targets & set(left)}
        if not leaves:
            break
        left = {name: targets for name, targets in left.items() if name not in leaves}
    while True:  # what only leads to a cycle is not on it
        reached = set().union(*left.values()) if left else set()
        roots = set(left) - reached
        if not roots:
            return sorted(left)
        left = {name: targets for name, targets in left.items() if name not in roots}


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


def test_no_import_for_types_alone_hides_a_cycle() -> None:
    assert find_cycle({name: module_level_imports(path) - {name} for name, path in modules().items()}) == []


def test_toolsets_use_the_engine_through_its_api_alone() -> None:
    assert [
        f"{name} imports {target}"
        for name, path in modules().items()
        for target in sorted(imported_modules(path))
        if name.startswith("toolsets.")
        and (target.split(".")[0] in ("store", "index", "extract", "embed") or target.startswith("engine"))
        and target != "engine.api"
    ] == []


def test_third_parties_are_imported_by_their_packages_only() -> None:
    assert [
        f"{name} imports {target[0]}"
        for name, path in modules().items()
        for target in imports(path)
        if target[0] in THIRD_PARTIES and name.split(".")[0] not in THIRD_PARTIES[target[0]]
    ] == []


def test_no_private_name_of_a_third_party_is_imported() -> None:
    """`from x._y import`, `import x._y` and `from x import _y` reach into what a library may change at any time."""
    own = {*sys.stdlib_module_names, "knowledge", *PRIVATE_NAMES_ALLOWED}
    offenders = [
        f"{name} imports {'.'.join(target)}"
        for name, path in modules().items()
        for target in imports(path)
        if target[0] not in own and any(is_private(part) for part in target)
    ]
    assert offenders == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


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


RETIRED_NAMES = re.compile(
    r"\b(GLANCE|ENOUGH|MOST|MOST_[A-Z]+|LARGEST|FEWEST|FEWEST_[A-Z]+|LONGEST_[A-Z]+|MUCH_DEAD|Courtesy|CrawlOffice|Doors"
    r"|Nursery|Relay|Purse|purse_of|stand_aside|LedAway|Taker|Manners|Parcel|VectorKeeper)\b"
)
TERMS = (
    "SSRF", "DNS rebinding", "path traversal", "backoff", "lease", "leader", "rate limit", "CSRF", "backpressure",
    "heartbeat", "reciprocal rank fusion", "near-duplicate", "idempotency key", "product quantization",
)  # fmt: skip


def test_retired_names_do_not_come_back() -> None:
    files = [*PACKAGE.rglob("*.py"), *(path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__))]
    assert [
        f"{path.name}:{number} {found[0]}"
        for path in files
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (found := RETIRED_NAMES.search(line))
    ] == []


def test_the_terms_of_the_field_stand_in_the_code() -> None:
    code = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py")).lower()
    assert [term for term in TERMS if not re.search(rf"\b{term.lower()}", code)] == []
