"""Writes the pages of docs/reference that are made from the code: `make docs`. A test looks that they are fresh."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pydantic_core import PydanticUndefined
from scripts.docs.commands import commands_page
from scripts.docs.formats import formats_page
from scripts.docs.rest import rest_page

from knowledge.config import Settings
from knowledge.errors import KnowledgeError
from knowledge.toolsets import registry
from knowledge.toolsets.manager.errors import WORDS

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
    table = ["| code | status | what it means | what to do |", "|---|---|---|---|", *rows, ""]
    return "\n".join([*head, *table, *_manager_words(), ""])


MANAGER = (
    "`/api/v1/mcp/`, its stream, and `/user`, `/corpuses` and `/admin` below `/api/v1` name the same errors in the",
    "words of their contract: as `X-MCP-Error-Code`, as `data.error_type` of a JSON-RPC error, as `error_code` of an",
    "`error` event. The `code` of the JSON-RPC error and its `data.http_status` are the HTTP status.",
)
RETRY = {
    "auth": "with valid credentials",
    "validation": "with other parameters",
    "file": "with another file",
    "rate_limit": "after `Retry-After`, or with growing pauses",
    "resource": "no: it does not exist",
    "server": "with growing pauses",
}


def _manager_words() -> list[str]:
    """The codes of contract 001, and what stands behind each of them."""
    behind: dict[str, list[type[KnowledgeError]]] = {}
    for kind, word in WORDS.items():
        behind.setdefault(word.code, []).append(kind)
    rows = []
    for code, kinds in sorted(behind.items(), key=lambda entry: list(RETRY).index(entry[0].partition(".")[0])):
        ours = ", ".join(f"`{kind.code}`" for kind in kinds)
        rows.append(f"| `{code}` | {kinds[0].status} | {WORDS[kinds[0]].meaning} | {ours} |")
    retry = ["| category | try again |", "|---|---|", *(f"| `{name}.*` | {when} |" for name, when in RETRY.items())]
    return [
        "## On the manager's endpoints",
        "",
        *MANAGER,
        "",
        "| code | status | what it means | the error behind it, and what stands below that |",
        "|---|---|---|---|",
        *rows,
        "",
        *retry,
    ]


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
