"""Generates docs/reference, the package diagram and the examples of STYLE.md from the code (`make docs`).

A test fails if one of them is outdated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pydantic_core import PydanticUndefined
from scripts.docs.commands import render_commands_page
from scripts.docs.examples import update_examples
from scripts.docs.formats import render_formats_page
from scripts.docs.package_diagram import render_package_diagram
from scripts.docs.rest import render_rest_page

from knowledge.config import Settings
from knowledge.errors import KnowledgeError
from knowledge.toolsets import make_registry
from knowledge.toolsets.manager.errors import ERROR_TABLE

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
DIAGRAM = ROOT / "docs" / "explanation" / "packages.svg"
PAGES_WITH_EXAMPLES = (ROOT / "STYLE.md",)
GENERATED_NOTE = "<!-- Generated from the code by `make docs`; do not edit. -->"


def render_settings_page() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        choices = getattr(field.validation_alias, "choices", None)
        names = choices or [f"KNOWLEDGE_{name.upper()}"]
        rows.append(
            f"| {' or '.join(f'`{one}`' for one in names)} | {_format_default(field.default)} | {field.description} |"
        )
    head = [
        "# Settings",
        "",
        GENERATED_NOTE,
        "",
        "All settings are environment variables. They are read once, at start.",
        "",
    ]
    return "\n".join([*head, "| variable | default | meaning |", "|---|---|---|", *rows, ""])


def _format_default(value: object) -> str:
    if value is PydanticUndefined:
        return "the platform's data folder"
    if value is None or value == "":
        return "–"
    return f"`{value}`"


def render_errors_page() -> str:
    rows: list[str] = []

    def walk(kind: type[KnowledgeError], depth: int) -> None:
        mark = "&nbsp;&nbsp;" * depth
        meaning = (kind.__doc__ or "").strip().splitlines()
        rows.append(f"| {mark}`{kind.code}` | {kind.status} | {meaning[0] if meaning else ''} | {kind.default_hint} |")
        for child in kind.__subclasses__():
            walk(child, depth + 1)

    for kind in KnowledgeError.__subclasses__():
        walk(kind, 0)
    shape = '`{"error": {"code", "message", "hint", "details"}}`'
    head = [
        "# Errors",
        "",
        GENERATED_NOTE,
        "",
        f"REST answers {shape} with the HTTP status, and the code in the header `X-MCP-Error-Code`.",
        "",
    ]
    table = ["| code | status | meaning | what to do |", "|---|---|---|---|", *rows, ""]
    return "\n".join([*head, *table, *_render_manager_errors(), ""])


MANAGER_INTRODUCTION = (
    "`/api/v1/mcp/`, its stream, and `/user`, `/corpuses` and `/admin` below `/api/v1` report the same errors with the",
    "codes of contract 001: in the header `X-MCP-Error-Code`, in `data.error_type` of a JSON-RPC error, and in",
    "`error_code` of an `error` event. The `code` and `data.http_status` of a JSON-RPC error are the HTTP status.",
)
RETRY_ADVICE = {
    "auth": "with valid credentials",
    "validation": "with other parameters",
    "file": "with another file",
    "rate_limit": "after `Retry-After`, or with exponential backoff",
    "resource": "no: it does not exist",
    "server": "with exponential backoff",
}


def _render_manager_errors() -> list[str]:
    """Return the table of contract 001's codes, each with the errors that it covers."""
    kinds_by_code: dict[str, list[type[KnowledgeError]]] = {}
    for kind, entry in ERROR_TABLE.items():
        kinds_by_code.setdefault(entry.code, []).append(kind)
    rows = []
    for code in sorted(kinds_by_code, key=lambda code: list(RETRY_ADVICE).index(code.partition(".")[0])):
        kinds = kinds_by_code[code]
        ours = ", ".join(f"`{kind.code}`" for kind in kinds)
        rows.append(f"| `{code}` | {kinds[0].status} | {ERROR_TABLE[kinds[0]].meaning} | {ours} |")
    retry = [
        "| category | try again |",
        "|---|---|",
        *(f"| `{name}.*` | {when} |" for name, when in RETRY_ADVICE.items()),
    ]
    return [
        "## Codes of the manager endpoints",
        "",
        *MANAGER_INTRODUCTION,
        "",
        "| code | status | meaning | errors, including those below them in the table above |",
        "|---|---|---|---|",
        *rows,
        "",
        *retry,
    ]


def render_tools_page() -> str:
    lines = ["# MCP tools", "", GENERATED_NOTE, ""]
    for tool in make_registry().by_name.values():
        lines += [f"## `{tool.name}`", "", f"Toolset `{tool.toolset}`. {tool.description.strip().splitlines()[0]}", ""]
        properties = tool.schema.get("properties")
        required = tool.schema.get("required") or []
        if isinstance(properties, dict) and properties:
            lines += ["| parameter | type | required | description |", "|---|---|---|---|"]
            for name, schema in properties.items():
                assert isinstance(schema, dict) and isinstance(required, list)
                needed = "yes" if name in required else ""
                about = str(schema.get("description", "")).replace("|", "\\|")
                lines.append(f"| `{name}` | {schema.get('type', '')} | {needed} | {about} |")
            lines.append("")
    return "\n".join(lines)


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": render_settings_page,
    "errors.md": render_errors_page,
    "tools.md": render_tools_page,
    "cli.md": lambda: render_commands_page(GENERATED_NOTE),
    "rest.md": lambda: render_rest_page(GENERATED_NOTE),
    "formats.md": lambda: render_formats_page(GENERATED_NOTE),
}


def main() -> None:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        write_page(REFERENCE / name, page())
    write_page(DIAGRAM, render_package_diagram())
    for path in PAGES_WITH_EXAMPLES:
        write_page(path, update_examples(path.read_text("utf-8")))


def write_page(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    sys.stderr.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
