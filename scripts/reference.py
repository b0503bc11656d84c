"""Writes the pages of docs/reference that are made from the code: `make docs`. A test looks that they are fresh."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pydantic_core import PydanticUndefined

from knowledge.config import Settings
from knowledge.errors import KnowledgeError
from knowledge.extract.reference import formats_page
from knowledge.surfaces.cli.reference import commands_page
from knowledge.surfaces.rest.reference import rest_page
from knowledge.toolsets import registry

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by `make docs` from the code; do not edit. -->"


def settings_page() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        choices = getattr(field.validation_alias, "choices", None)
        names = choices or [f"KNOWLEDGE_{name.upper()}"]
        rows.append(f"| {' or '.join(f'`{one}`' for one in names)} | {_default(field.default)} | {field.description} |")
    head = ["# Settings", "", MADE, "", "All settings are environment variables, read once at the start.", ""]
    return "\n".join([*head, "| variable | default | what it does |", "|---|---|---|", *rows, ""])


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "the platform's data folder"
    if value is None or value == "":
        return "–"
    return f"`{value}`"


def errors_page() -> str:
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
        MADE,
        "",
        f"REST answers {shape} with the HTTP status, and the code as `X-MCP-Error-Code`.",
        "",
    ]
    return "\n".join([*head, "| code | status | what it means | what to do |", "|---|---|---|---|", *rows, ""])


def tools_page() -> str:
    lines = ["# MCP tools", "", MADE, ""]
    for tool in registry().by_name.values():
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
    "settings.md": settings_page,
    "errors.md": errors_page,
    "tools.md": tools_page,
    "cli.md": lambda: commands_page(MADE),
    "rest.md": lambda: rest_page(MADE),
    "formats.md": lambda: formats_page(MADE),
}


def main() -> None:
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), "utf-8")
        sys.stderr.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    main()
