"""Real MCP clients against a real server: they connect, search, and go on after the server was killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client_list import CLIENTS, McpClient
from tests.clients.driver_process import DriverProcess, run_driver
from tests.clients.install import ClientInstaller, NotInstalled
from tests.clients.page import ClientResult
from tests.support.server_process import WITHOUT_MODELS, run_server_process, run_server_process_on_port

pytestmark = pytest.mark.long

NOTE = b"The lighthouse keeper of Skerryvore counts 4,308 rivets every spring."


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.test_id)
def test_a_client_goes_on_after_a_restart(
    client: McpClient, installer: ClientInstaller, results: dict[McpClient, ClientResult], tmp_path: Path
) -> None:
    result = results.setdefault(client, ClientResult())
    try:
        installed = installer.install(client)
    except NotInstalled as reason:
        pytest.skip(f"{client.name} ({client.requirements[0]}) could not be installed: {reason}")
    result.version = installed.version
    with run_server_process(tmp_path) as server:
        server.wait_for_outcome(server.add_file("skerryvore.txt", NOTE))
        port, url = server.port, f"{server.url}/mcp"
        target: dict[str, Any] = {"url": url}
        if installed.program:
            target = {"command": installed.program, "args": ["--transport", "streamablehttp", url], "env": {}}
        with run_driver(installed.driver, target, client.mode, tmp_path) as driver:
            result.protocol = driver.protocol
            assert_search_works(driver)
            result.transports = ("stdio to streamable HTTP",) if client.proxy else ("streamable HTTP",)
            server.process.kill()
            server.process.wait()
            with run_server_process_on_port(port, tmp_path):
                assert_search_works(driver)
                result.restart = True
    if not client.proxy:
        with run_driver(installed.driver, make_stdio_target(tmp_path), client.mode, tmp_path) as driver:
            assert_search_works(driver)
            result.transports += ("stdio",)


def assert_search_works(driver: DriverProcess) -> None:
    assert "knowledge-search" in driver.tools
    assert "4,308 rivets" in driver.call("knowledge-search", {"query": "rivets of the lighthouse"})


def make_stdio_target(folder: Path) -> dict[str, Any]:
    """Return the target of a driver that starts a server on the same data folder itself."""
    arguments = ["-m", "knowledge", "--data", str(folder / "data"), "serve", "--transport", "stdio"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    return {"command": sys.executable, "args": arguments, "env": {**environment, **WITHOUT_MODELS}}
