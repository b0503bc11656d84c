"""Reads which top-level modules of `knowledge` import which, from the source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "knowledge"
ROOT_NAME = "knowledge"
"""The name of the package's own `__init__.py` among its modules."""

Graph = dict[str, set[str]]


def read_import_graph(package: Path = PACKAGE) -> Graph:
    """Return the imports between top-level modules and packages, `if TYPE_CHECKING` and late imports included."""
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(package.rglob("*.py")):
        name = find_top_level_name(path.relative_to(package))
        graph[name] |= {target for target in list_targets(path, package) if target != name}
    return dict(graph)


def find_top_level_name(path: Path) -> str:
    if path.parts == ("__init__.py",):
        return ROOT_NAME
    return path.parts[0].removesuffix(".py")


def list_targets(path: Path, package: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            dotted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in dotted):
            if parts[0] == ROOT_NAME and len(parts) > 1 and is_module(package / parts[1]):
                yield parts[1]


def is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").is_file()


def reduce_transitively(graph: Graph) -> Graph:
    """Leave out each import that another path of imports implies."""
    reachable = {name: find_reachable(graph, name) for name in graph}
    return {
        name: {
            target
            for target in targets
            if not any(target in reachable.get(other, set()) for other in targets - {target})
        }
        for name, targets in graph.items()
    }


def find_reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for target in graph.get(waiting.pop(), set()) - found:
            found.add(target)
            waiting.append(target)
    return found
