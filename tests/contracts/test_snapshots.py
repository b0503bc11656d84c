"""Snapshots of the tools/list of each toolset; UPDATE_SNAPSHOTS=1 rewrites them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.model import JsonValue
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import Tool, ToolsetView

HERE = Path(__file__).parent
REGISTRY = make_registry()
EVERY = [tool for toolset in REGISTRY.toolsets.values() for tool in toolset.tools]


@pytest.mark.parametrize("toolset", REGISTRY.names)
def test_clients_see_what_the_snapshot_shows(toolset: str) -> None:
    path = HERE / toolset / "tools.json"
    seen = json.dumps(REGISTRY.list_schemas(ToolsetView((toolset,))), indent=2, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(seen, "utf-8")
    assert path.read_text("utf-8") == seen, "read the difference, then run again with UPDATE_SNAPSHOTS=1"


def keys(node: JsonValue) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            if key != "properties":
                yield from keys(value)
            elif isinstance(value, dict):
                for inner in value.values():
                    yield from keys(inner)
    elif isinstance(node, list):
        for item in node:
            yield from keys(item)


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool.name)
def test_a_tool_says_what_it_does_and_has_a_plain_schema(tool: Tool) -> None:
    assert tool.description
    assert tool.schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref", "$defs", "title"} & set(keys(tool.schema))
    properties = tool.schema["properties"]
    assert isinstance(properties, dict)
    assert all(isinstance(schema, dict) and schema.get("description") for schema in properties.values())
    assert not (tool.read_only and tool.destructive)


def test_a_read_only_view_holds_nothing_that_changes_data() -> None:
    seen = REGISTRY.list_tools(ToolsetView(REGISTRY.names, read_only=True))
    assert seen and all(tool.read_only for tool in seen)
    assert not any(tool.name in ("knowledge-add", "knowledge-remove", "knowledge-clear") for tool in seen)


def test_all_tools_together_fit_into_what_clients_take() -> None:
    assert len(EVERY) < 128
