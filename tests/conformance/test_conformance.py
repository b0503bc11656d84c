"""Runs the official conformance suite with both requirement sets, and the Inspector on every toolset."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.toolsets import make_registry
from tests.conformance.fixtures import install
from tests.conformance.node import NodeTools, install_tools
from tests.contracts.app_server import make_app, serve_app


@pytest.fixture(scope="session")
def official() -> NodeTools:
    return install_tools()


@pytest.mark.parametrize("requirements", ["2025-11-25", "2026-07-28"])
async def test_the_official_conformance_suite_passes(
    requirements: str, official: NodeTools, local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the suite provokes errors that the SDK logs
    async with serve_app(make_app(local, settings, tmp_path, extend=install)) as url:
        code, printed = await official.run(
            official.conformance, "server", "--url", f"{url}/mcp", "--requirements", requirements,
            "--timeout", "120000", "-o", str(tmp_path / "out"), home=tmp_path,
        )  # fmt: skip
    assert code == 0, printed[-4000:] + _read_failures(tmp_path / "out")


def _read_failures(folder: Path) -> str:
    """Return one line for each failed check of the suite."""
    checks = [
        (path.parent.name, check) for path in folder.rglob("checks.json") for check in json.loads(path.read_text())
    ]
    failed = [(name, check) for name, check in checks if check.get("status") == "FAILURE"]
    return "".join(f"\n{name}: {check.get('id')}: {check.get('errorMessage')}" for name, check in failed)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("toolset", make_registry().names)
async def test_the_inspector_reports_no_problem_of_a_toolset(
    toolset: str, era: str, official: NodeTools, local: LocalEngine, settings: Settings, tmp_path: Path
) -> None:
    async with serve_app(make_app(local, settings, tmp_path)) as url:
        code, printed = await official.run(
            official.inspector, "--cli", f"{url}/mcp/{toolset}", "--transport", "http", "--protocol-era", era,
            "--method", "tools/list", "--strict", home=tmp_path,
        )  # fmt: skip
    assert code == 0, printed[-4000:]
    assert f'"{make_registry().toolsets[toolset].tools[0].name}"' in printed
