"""Installs MCP clients, each set of requirements once, into folders of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.clients.client_list import McpClient

DRIVERS = Path(__file__).with_name("drivers")
INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """A client that pip or npm could not install; the message says why."""


@dataclass(frozen=True, slots=True)
class InstalledClient:
    version: str
    driver: tuple[str, ...]
    """The command that runs the driver, without its arguments."""
    program: str | None = None
    """The client's own command, if it is a proxy."""


class ClientInstaller:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folders: dict[tuple[str, ...], Path] = {}
        self._failures: dict[tuple[str, ...], str] = {}

    def install(self, client: McpClient) -> InstalledClient:
        """Install a client, or find it installed; raise NotInstalled if that fails."""
        folder = self._install_once(client)
        return _find_npm_client(client, folder) if client.npm else _find_python_client(client, folder)

    def _install_once(self, client: McpClient) -> Path:
        wanted = client.requirements
        if wanted in self._failures:
            raise NotInstalled(self._failures[wanted])
        if wanted not in self._folders:
            folder = self._folder / str(len(self._folders) + len(self._failures))
            try:
                (_install_with_npm if client.npm else _install_with_pip)(wanted, folder)
            except NotInstalled as error:
                self._failures[wanted] = str(error)
                raise
            self._folders[wanted] = folder
        return self._folders[wanted]


def _install_with_pip(requirements: tuple[str, ...], folder: Path) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(_find_program(folder, "python")), "-m", "pip", "install", "--quiet", *requirements])


def _install_with_npm(requirements: tuple[str, ...], folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstalled("npm is not installed")
    folder.mkdir()
    _run([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), *requirements])


def _run(command: list[str]) -> None:
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{program} did not end within {INSTALL_SECONDS} seconds") from None
    if done.returncode != 0:
        raise NotInstalled(f"{program} failed: {' '.join(done.stderr.strip().splitlines()[-1:])}")


def _find_python_client(client: McpClient, folder: Path) -> InstalledClient:
    python = str(_find_program(folder, "python"))
    show_version = f"import importlib.metadata as m; print(m.version({client.package!r}))"
    version = subprocess.run([python, "-c", show_version], capture_output=True, text=True, check=True).stdout.strip()
    driver = str(DRIVERS / client.driver)
    if client.proxy:
        return InstalledClient(version, (sys.executable, driver), str(_find_program(folder, client.package)))
    return InstalledClient(version, (python, driver))


def _find_npm_client(client: McpClient, folder: Path) -> InstalledClient:
    node = shutil.which("node")
    if node is None:
        raise NotInstalled("Node is not installed")
    manifest = folder / "node_modules" / client.package / "package.json"
    version = str(json.loads(manifest.read_text("utf-8"))["version"])
    driver = folder / client.driver  # a module is looked up from the folder of the file that imports it
    shutil.copyfile(DRIVERS / client.driver, driver)
    return InstalledClient(version, (node, str(driver)))


def _find_program(folder: Path, name: str) -> Path:
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / name
