"""Collects every regular expression of the package from its syntax trees, with the methods that the code calls."""

from __future__ import annotations

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
METHODS = {
    "match": "match",
    "fullmatch": "fullmatch",
    "search": "search",
    "sub": "finditer",
    "subn": "finditer",
    "split": "finditer",
    "findall": "finditer",
    "finditer": "finditer",
}
"""To replace, to split and to find all costs what it costs to step through the matches."""
CALLS = {"compile", *METHODS}


@dataclass(frozen=True, slots=True)
class Pattern:
    file: str
    line: int
    pattern: str | bytes
    flags: int
    methods: frozenset[str]

    @property
    def text(self) -> str:
        return self.pattern.decode("latin-1") if isinstance(self.pattern, bytes) else self.pattern

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.pattern!r}"


@dataclass(slots=True)
class Unresolved:
    file: str
    line: int
    expression: str


@dataclass(slots=True)
class Collected:
    patterns: list[Pattern] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    exemplified: set[tuple[str, str]] = field(default_factory=set)
    """The places for which an example was needed."""


@dataclass(frozen=True, slots=True)
class _Module:
    file: str
    name: str
    tree: ast.Module


def collect_patterns(examples: Mapping[tuple[str, str], Mapping[str, object]]) -> Collected:
    """All patterns. `examples` has values for the local names in patterns that are put together while running."""
    modules = _load_modules()
    uses = _method_uses(modules)
    found = Collected()
    for module in modules:
        calls = [node for node in ast.walk(module.tree) if _is_regex_call(node)]
        if not calls:
            continue
        parents = {child: node for node in ast.walk(module.tree) for child in ast.iter_child_nodes(node)}
        for call in calls:
            assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            expression = ast.unparse(call.args[0])
            local = _local_names(call, parents) & {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
            values = examples.get((module.file, expression), {})
            if local:
                found.exemplified.add((module.file, expression))
            if local - set(values):
                found.unresolved.append(Unresolved(module.file, call.lineno, expression))
                continue
            space = {**vars(importlib.import_module(module.name)), **values}
            pattern = eval(expression, space)
            kind = call.func.attr
            methods = frozenset({METHODS[kind]}) if kind != "compile" else _find_methods(module, call, parents, uses)
            found.patterns.append(Pattern(module.file, call.lineno, pattern, _read_flags(call, kind, space), methods))
    return found


@cache
def _load_modules() -> list[_Module]:
    found = []
    for package in ("knowledge", "sage"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            inner = path.relative_to(SOURCE)
            name = ".".join(inner.with_suffix("").parts).removesuffix(".__init__")
            found.append(_Module(str(inner), name, ast.parse(path.read_text("utf-8"))))
    return found


def _is_regex_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in CALLS
    )


def find_other_imports() -> list[str]:
    """Imports that this module would not see through: `from re import`, `import re as`, `import regex`."""
    seen = []
    for module in _load_modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module in ("re", "regex"):
                seen.append(f"{module.file}:{node.lineno}")
            elif isinstance(node, ast.Import):
                seen.extend(
                    f"{module.file}:{node.lineno}"
                    for alias in node.names
                    if alias.name == "regex" or (alias.name == "re" and alias.asname not in (None, "re"))
                )
    return seen


def _local_names(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> set[str]:
    """Names that the functions around a node bind."""
    names: set[str] = set()
    while node in parents:
        node = parents[node]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names |= {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        elif isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def _read_flags(call: ast.Call, kind: str, space: dict[str, object]) -> int:
    """The flags by keyword, or by their place among the arguments."""
    place = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(kind, 2)
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), None)
    if given is None and len(call.args) > place:
        given = call.args[place]
    return 0 if given is None else int(eval(ast.unparse(given), space))


def _method_uses(modules: list[_Module]) -> dict[tuple[str, str], set[str]]:
    """For each global name (module, name) the methods that any module calls on it; `*` where it goes elsewhere."""
    uses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in modules:
        origins: dict[str, tuple[str, str]] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                origins |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        attributes = set()
        for node in ast.walk(module.tree):  # a call comes before its parts
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "search":
                if (
                    isinstance(node.func.value, ast.Name) and len(node.args) > 1
                ):  # from a place on, so perhaps in a loop
                    uses[origins.get(node.func.value.id, (module.name, node.func.value.id))].add("finditer")
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in METHODS:
                attributes.add(node.value)
                uses[origins.get(node.value.id, (module.name, node.value.id))].add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in attributes:
                uses[origins.get(node.id, (module.name, node.id))].add("*")
    return uses


def _find_methods(
    module: _Module, call: ast.Call, parents: Mapping[ast.AST, ast.AST], uses: Mapping[tuple[str, str], set[str]]
) -> frozenset[str]:
    """The methods called on a compiled pattern; where that cannot be seen, the ones that try every place of a text."""
    around = parents[call]
    if isinstance(around, ast.Attribute) and around.attr in METHODS:  # re.compile(...).search(text)
        return frozenset({METHODS[around.attr]})
    names = [target.id for target in _find_targets(call, parents) if isinstance(target, ast.Name)]
    if isinstance(around, ast.Call):
        return frozenset({"finditer", "fullmatch"})
    if not names:
        names = [name for name in _loop_names(module, call, parents) if uses[module.name, name] & METHODS.keys()]
    seen = set().union(*(uses.get((module.name, name), set()) for name in names))
    if "*" in seen or not seen & METHODS.keys():
        return frozenset({"finditer", "fullmatch"})
    return frozenset(METHODS[name] for name in seen & METHODS.keys())


def _loop_names(module: _Module, call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> list[str]:
    """The names of the loops over the collection that a pattern is part of, if it is used for nothing else."""
    node: ast.AST = call
    while isinstance(parents.get(node), (ast.Tuple, ast.List)):
        node = parents[node]
    whole = parents.get(node)
    if not isinstance(whole, ast.Assign) or not isinstance(whole.targets[0], ast.Name):
        return []
    name = whole.targets[0].id
    loops = [
        loop
        for loop in ast.walk(module.tree)
        if isinstance(loop, (ast.For, ast.comprehension)) and isinstance(loop.iter, ast.Name) and loop.iter.id == name
    ]
    loads = [
        n for n in ast.walk(module.tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    if not loops or len(loads) != len(loops):
        return []
    return [n.id for loop in loops for n in ast.walk(loop.target) if isinstance(n, ast.Name)]


def _find_targets(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> list[ast.expr]:
    """The names that a pattern is assigned to, also one of several at once; none where it is a part of something."""
    around = parents[call]
    if isinstance(around, ast.Assign) and around.value is call:
        return around.targets
    if isinstance(around, ast.AnnAssign):
        return [around.target]
    if isinstance(around, ast.NamedExpr):
        return [around.target]
    if isinstance(around, ast.Tuple) and isinstance(whole := parents[around], ast.Assign):
        target = whole.targets[0]
        if isinstance(target, ast.Tuple) and len(target.elts) == len(around.elts):
            return [target.elts[around.elts.index(call)]]
    return []


assert set(CALLS) <= set(dir(re))
