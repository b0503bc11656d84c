"""Finds axe-core, which checks the accessibility of a page, or installs it once into the user's cache."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from playwright.async_api import Page

PACKAGE = "axe-core@4.14.0"
INSTALL_SECONDS = 240
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def read_axe() -> str:
    """Return the source of axe-core; skip the test if npm is missing or cannot fetch it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so axe-core cannot be fetched")
    folder = Path(platformdirs.user_cache_dir("knowledge-server", appauthor=False)) / PACKAGE
    source = folder / "node_modules/axe-core/axe.min.js"
    if not source.exists():
        _install(npm, folder)
    return source.read_text("utf-8")


def _install(npm: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), PACKAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"axe-core could not be fetched within {INSTALL_SECONDS} seconds")
    if done.returncode != 0:
        pytest.skip(f"axe-core could not be fetched: {done.stderr.strip().splitlines()[-1:]}")


async def list_violations(page: Page, source: str) -> list[str]:
    """Return what axe-core finds on the page as it is, one line for each element."""
    await page.evaluate(source)
    options = {"runOnly": {"type": "tag", "values": RULES}}
    found: dict[str, Any] = await page.evaluate("(options) => window.axe.run(document, options)", options)
    return [
        f"{each['id']}: {node['html'][:160]} ({' '.join(node['failureSummary'].split())[:200]})"
        for each in found["violations"]
        for node in each["nodes"]
    ]
