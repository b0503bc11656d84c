"""Code examples in Markdown that are copies of real code.

A line such as `src/knowledge/errors.py#NotFound`, in backticks and directly above a block of Python, names the file and
the function, class, constant or `Class.member`; without `#` it is the whole file. `make docs` copies the code again.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = re.compile(
    r"^`(?P<path>[\w./]+\.py)(?:#(?P<name>[\w.]+))?`\n\n?```python\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Example:
    path: str
    name: str | None
    code: str

    def read_source(self) -> str:
        """Return the code as it is in the file now."""
        text = (ROOT / self.path).read_text("utf-8")
        return extract_code(text, self.name) if self.name else text


def find_examples(page: str) -> Iterator[Example]:
    for found in EXAMPLE.finditer(page):
        yield Example(found["path"], found["name"], found["code"])


def update_examples(page: str) -> str:
    """Return the page with the code of every example read again."""

    def replace_code(found: re.Match[str]) -> str:
        start, end = (place - found.start() for place in found.span("code"))
        code = Example(found["path"], found["name"], "").read_source()
        return found[0][:start] + code + found[0][end:]

    return EXAMPLE.sub(replace_code, page)


def extract_code(text: str, name: str) -> str:
    """Return the lines that define a name, decorators included and without their common indentation."""
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = find_definition(node, part)
    assert isinstance(node, ast.stmt) and node.end_lineno is not None
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    lines = text.splitlines()[first - 1 : node.end_lineno]
    return textwrap.dedent("\n".join(lines)) + "\n"


def find_definition(within: ast.AST, name: str) -> ast.stmt:
    for node in getattr(within, "body", []):
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if getattr(node, "name", None) == name or name in names:
            assert isinstance(node, ast.stmt)
            return node
    raise LookupError(f"{name} is not defined there")
