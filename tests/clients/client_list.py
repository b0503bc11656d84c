"""The MCP clients that `make clients` connects to a server."""

from __future__ import annotations

from dataclasses import dataclass

OLD_PYDANTIC = "pydantic<2.12"
"""Versions of the Python SDK before 1.21 import a private name that newer pydantic versions do not have."""


@dataclass(frozen=True, slots=True)
class McpClient:
    name: str
    package: str
    """The distribution whose installed version the page shows."""
    requirements: tuple[str, ...]
    """What pip or npm installs."""
    driver: str
    """A file in `drivers/`."""
    mode: str | None = None
    """How the driver negotiates the protocol version; None is the client's default."""
    npm: bool = False
    proxy: bool = False
    """The client is a program that the driver, in our own environment, starts and talks to over stdio."""

    @property
    def test_id(self) -> str:
        return "-".join([self.name, *self.requirements[:1], *([self.mode] if self.mode else [])]).replace(" ", "-")


def _python_sdk(requirement: str, *pins: str, driver: str = "python_sdk_1.py", mode: str | None = None) -> McpClient:
    return McpClient("Python SDK", "mcp", (requirement, *pins), driver, mode)


def _typescript_sdk(version: str) -> McpClient:
    package = "@modelcontextprotocol/sdk"
    return McpClient("TypeScript SDK", package, (f"{package}@{version}",), "typescript_sdk_1.mjs", npm=True)


def _typescript_sdk_2(mode: str) -> McpClient:
    package = "@modelcontextprotocol/client"
    return McpClient("TypeScript SDK", package, (f"{package}@2",), "typescript_sdk_2.mjs", mode, npm=True)


CLIENTS = (
    _python_sdk("mcp==1.9.*", OLD_PYDANTIC),
    _python_sdk("mcp==1.12.*", OLD_PYDANTIC),
    _python_sdk("mcp==1.20.*", OLD_PYDANTIC),
    _python_sdk("mcp<2"),
    _python_sdk("mcp==2.*", driver="python_sdk_2.py", mode="legacy"),
    _python_sdk("mcp==2.*", driver="python_sdk_2.py", mode="auto"),
    _typescript_sdk("1.12"),
    _typescript_sdk("1"),
    _typescript_sdk_2("legacy"),
    _typescript_sdk_2("auto"),
    McpClient("FastMCP", "fastmcp", ("fastmcp",), "fastmcp_client.py"),
    McpClient("mcp-proxy", "mcp-proxy", ("mcp-proxy",), "python_sdk_2.py", "legacy", proxy=True),
)
