"""Tool schemas that every model API and framework accepts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.toolsets import make_registry
from knowledge.toolsets.base import Tool
from tests.contracts.app_server import make_app, serve_app_in_thread
from tests.contracts.schema_rules import list_problems

REGISTRY = make_registry()
TOOLS = [tool for toolset in REGISTRY.toolsets.values() for tool in toolset.tools]
CONVERTERS = Path(__file__).parent / "converters"
PIP_PACKAGES = ("mcp<2", "google-genai", "openai-agents", "anthropic", "langchain-mcp-adapters")
NPM_PACKAGES = ("ai", "@ai-sdk/mcp", "@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google")
INSTALL_SECONDS = 600


@pytest.mark.requirement("mcp.schemas.rules")
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_tool_follows_the_rules_of_every_model_api(tool: Tool) -> None:
    assert list_problems(tool.listing) == []


@pytest.mark.requirement("mcp.schemas.rules")
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object"}, "the root must be an object with properties"),
        ({"type": "object", "properties": {}, "additionalProperties": False}, "additionalProperties not supported"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "$ref not supported"),
        ({"type": "object", "properties": {"a": {"type": "integer", "exclusiveMaximum": 3}}}, "exclusiveMaximum"),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, "type must be one type name"),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, "an array needs items"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "an object below the root needs properties"),
        ({"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}, "enum holds non-empty strings"),
        ({"type": "object", "properties": {"a b": {"type": "string"}}}, "property names a b"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required names a"),
    ],
)
def test_a_schema_that_breaks_a_rule_is_found(schema: Any, problem: str) -> None:
    tool = {**TOOLS[0].listing, "inputSchema": schema}
    assert any(problem in line for line in list_problems(tool))


def convert_all(
    command: list[str | Path], engine: LocalEngine, settings: Settings, folder: Path
) -> list[dict[str, Any]]:
    """Serve every toolset and let a converter list and convert its tools; return what it printed for each toolset."""
    with serve_app_in_thread(make_app(engine, settings, folder)) as url:
        urls = [f"{url}/mcp/{name}" for name in REGISTRY.names]
        run = subprocess.run([*command, *urls], capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    assert run.returncode == 0, run.stderr[-4000:]
    results: list[dict[str, Any]] = json.loads(run.stdout)
    assert [failure for result in results for failure in result["failures"]] == []
    assert [result["tools"] for result in results] == [
        [tool.name for tool in toolset.tools] for toolset in REGISTRY.toolsets.values()
    ]
    return results


@pytest.mark.long
@pytest.mark.requirement("mcp.schemas.converters")
def test_the_converters_of_python_take_every_tool(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    python = tmp_path / "venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PIP_PACKAGES]
    subprocess.run(install, check=True, timeout=INSTALL_SECONDS)
    results = convert_all([python, CONVERTERS / "convert.py"], local, settings, tmp_path)
    for result, toolset in zip(results, REGISTRY.toolsets.values(), strict=True):
        missing = cast(list[str], toolset.tools[0].schema["required"])[0]
        assert len(result["refusals"]) == 2
        assert all(missing in text for text in result["refusals"]), result["refusals"]


@pytest.mark.long
@pytest.mark.requirement("mcp.schemas.converters")
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_ai_sdk_takes_every_tool(local: LocalEngine, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "npm"
    folder.mkdir()
    install = [str(shutil.which("npm")), "install", "--silent", "--no-fund", "--no-audit", *NPM_PACKAGES]
    subprocess.run(install, cwd=folder, check=True, timeout=INSTALL_SECONDS)
    script = shutil.copy(CONVERTERS / "convert.mjs", folder)  # modules are found beside the script
    convert_all(["node", script], local, settings, tmp_path)
