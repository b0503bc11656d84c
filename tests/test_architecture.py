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
    {"extract", "embed", "store", "index", "blobs"},
    {"telemetry"},
    {"config", "error_codes", "failpoints", "filesystem", "malloc", "retry_after"},
    {"errors"},
    {"model", "version"},
]
"""From the top: a package may import the layers below its own, and nothing beside it."""

THIRD_PARTIES: dict[str, set[str]] = {
    "sqlalchemy": {"store"},
    "alembic": {"store"},
    "boto3": {"blobs"},
    "botocore": {"blobs"},
    "tantivy": {"index"},
    "faiss": {"index"},
    "onnxruntime": {"embed"},
    "onnx": {"embed"},
    "tokenizers": {"embed", "split", "app"},
    "Stemmer": {"text"},
    "jwt": {"surfaces"},
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
    "prometheus_client": {"telemetry"},
    "argon2": {"engine", "surfaces", "store"},
}
PRIVATE_NAMES_ALLOWED = {"mcp"}
"""Third parties whose private names are still imported."""
MAX_MODULES, MAX_LINES = 20, 500


@cache
def list_modules() -> dict[str, Path]:
    """Return the path of every module by its dotted name below `knowledge`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def list_imports(path: Path) -> Iterator[list[str]]:
    return list_import_targets(parse_module(path))


def list_import_targets(within: ast.AST) -> Iterator[list[str]]:
    for node in ast.walk(within):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").split(".")
            yield from ([*module, alias.name] for alias in node.names)


def read_imported_modules(path: Path) -> set[str]:
    """Return the modules of this package that a file imports, by dotted name."""
    return find_imported_modules(parse_module(path))


def find_imported_modules(within: ast.AST) -> set[str]:
    found = set()
    for target in list_import_targets(within):
        if target[0] == "knowledge":
            names = (".".join(target[1:end]) for end in range(len(target), 1, -1))
            found |= {next((name for name in names if name in list_modules()), "")} - {""}
    return found


def read_module_level_imports(path: Path) -> set[str]:
    """Return the modules of this package that a file imports at module level, `if TYPE_CHECKING` included."""
    outer = [
        node for node in parse_module(path).body if isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.Try)
    ]
    within = ast.Module(body=[*outer], type_ignores=[])
    return find_imported_modules(within)


def find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """Return the modules on a cycle of imports."""
    remaining = {name: set(targets) for name, targets in edges.items()}
    while True:
        leaves = {name for name, targets in remaining.items() if not targets & set(remaining)}
        if not leaves:
            break
        remaining = {name: targets for name, targets in remaining.items() if name not in leaves}
    while True:  # remove modules that lead to a cycle and are not on it
        reached = set().union(*remaining.values()) if remaining else set()
        roots = set(remaining) - reached
        if not roots:
            return sorted(remaining)
        remaining = {name: targets for name, targets in remaining.items() if name not in roots}


def find_layer(name: str) -> int:
    return next((number for number, packages in enumerate(LAYERS) if name in packages), -1)


def count_lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def test_every_package_has_a_layer() -> None:
    assert {name.split(".")[0] for name in list_modules() if name} <= set().union(*LAYERS)


def test_imports_are_absolute_and_point_down() -> None:
    offenders = []
    for name, path in list_modules().items():
        here = name.split(".")[0]
        offenders += [
            f"{name} imports relatively" for node in ast.walk(parse_module(path)) if getattr(node, "level", 0)
        ]
        for target in read_imported_modules(path) if here else ():
            there = target.split(".")[0]
            if there != here and find_layer(there) <= find_layer(here):
                offenders.append(f"{name} imports {target}")
    assert offenders == []


def test_no_import_for_types_alone_hides_a_cycle() -> None:
    assert find_cycle({name: read_module_level_imports(path) - {name} for name, path in list_modules().items()}) == []


def test_no_module_imports_the_public_names_of_the_package_which_come_from_the_surfaces() -> None:
    assert [
        f"{name} imports {'.'.join(target)}"
        for name, path in list_modules().items()
        for target in list_imports(path)
        if target[0] == "knowledge" and (len(target) == 1 or target[1] not in list_modules())
    ] == []


def test_toolsets_use_the_engine_through_its_api_alone() -> None:
    assert [
        f"{name} imports {target}"
        for name, path in list_modules().items()
        for target in sorted(read_imported_modules(path))
        if name.startswith("toolsets.")
        and (target.split(".")[0] in ("store", "index", "extract", "embed") or target.startswith("engine"))
        and target != "engine.api"
    ] == []


def test_third_parties_are_imported_by_their_packages_only() -> None:
    assert [
        f"{name} imports {target[0]}"
        for name, path in list_modules().items()
        for target in list_imports(path)
        if target[0] in THIRD_PARTIES and name.split(".")[0] not in THIRD_PARTIES[target[0]]
    ] == []


def test_no_private_name_of_a_third_party_is_imported() -> None:
    """`from x._y import`, `import x._y` and `from x import _y` use names that a library may change at any time."""
    own = {*sys.stdlib_module_names, "knowledge", *PRIVATE_NAMES_ALLOWED}
    offenders = [
        f"{name} imports {'.'.join(target)}"
        for name, path in list_modules().items()
        for target in list_imports(path)
        if target[0] not in own and any(is_private(part) for part in target)
    ]
    assert offenders == []


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_domain_types_import_nothing_but_the_standard_library() -> None:
    allowed = {*sys.stdlib_module_names, "knowledge"}
    models = {name: path for name, path in list_modules().items() if name.split(".")[0] == "model"}
    assert [
        name for name, path in models.items() if any(target[0] not in allowed for target in list_imports(path))
    ] == []


def test_packages_and_modules_have_a_readable_size() -> None:
    sizes: defaultdict[Path, int] = defaultdict(int)
    for path in list_modules().values():
        sizes[path.parent] += path.name != "__init__.py"
    crowded = [f"{folder.relative_to(PACKAGE)}: {count}" for folder, count in sizes.items() if count > MAX_MODULES]
    long = [f"{name}: {count_lines(path)}" for name, path in list_modules().items() if count_lines(path) > MAX_LINES]
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


def test_the_code_uses_the_terms_of_the_field() -> None:
    code = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py")).lower()
    assert [term for term in TERMS if not re.search(rf"\b{term.lower()}", code)] == []
