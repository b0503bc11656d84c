"""Runs the examples of `docs/how-to/connect-your-agent.md` whose packages are not in our own environment."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.client_list import McpClient
from tests.clients.install import ClientInstaller, NotInstalled
from tests.support.server_process import run_server_process

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-your-agent.md"
ADDRESS = "http://127.0.0.1:8000"
RUN_SECONDS = 120
EXAMPLES = (
    McpClient("Python SDK", "mcp", ("mcp<2",), "python_sdk_1.py"),
    McpClient("LangChain", "langchain-mcp-adapters", ("langchain-mcp-adapters",), "python_sdk_1.py"),
    McpClient("OpenAI Agents SDK", "openai-agents", ("openai-agents",), "python_sdk_1.py"),
    McpClient(
        "TypeScript SDK", "@modelcontextprotocol/sdk", ("@modelcontextprotocol/sdk@1",), "typescript_sdk_1.mjs",
        npm=True,
    ),
    McpClient(
        "TypeScript SDK", "@modelcontextprotocol/client", ("@modelcontextprotocol/client@2",), "typescript_sdk_2.mjs",
        npm=True,
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_server_process(tmp_path_factory.mktemp("server")) as server:
        yield server.url


@pytest.mark.parametrize("client", EXAMPLES, ids=lambda client: client.test_id)
def test_an_example_of_the_guide_runs(client: McpClient, installer: ClientInstaller, url: str) -> None:
    try:
        installed = installer.install(client)
    except NotInstalled as reason:
        pytest.skip(f"{client.name} ({client.requirements[0]}) could not be installed: {reason}")
    program, driver = installed.driver
    script = find_example(client).replace(ADDRESS, url)
    # Node looks for packages from the folder of the script, and the driver was copied to the right one.
    path = Path(driver).with_name("example.mjs") if client.npm else None
    if path is not None:
        path.write_text(script, "utf-8")
    command = [program, str(path)] if path is not None else [program, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert '"success":true' in done.stdout.replace(" ", "")


def find_example(client: McpClient) -> str:
    """Return the example of a client; that of the TypeScript SDK 1.x is the one of 2.x with other imports."""
    section = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    [text] = [part for part in section if part.startswith(f"{client.name}\n")]
    blocks: list[str] = re.findall(r"^```(?:python|js)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if client.package == "@modelcontextprotocol/sdk":
        return blocks[1] + "".join(line for line in blocks[0].splitlines(True) if not line.startswith("import"))
    return blocks[0] if client.npm else blocks[-1]
