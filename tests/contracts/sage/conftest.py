"""One HTTP server with the shipped layers for all tests of contract 003."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from knowledge.config import Settings
from knowledge.surfaces.sage import load_token_counter, make_sage_app, open_sage
from knowledge.toolsets.sage.configuration import SageConfiguration
from knowledge.toolsets.sage.token_budget import CountTokens
from tests.contracts.app_server import serve_app_in_thread
from tests.contracts.transports import Body, hold_open


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    settings = Settings(data=tmp_path_factory.mktemp("sage"))
    configuration = SageConfiguration()
    with serve_app_in_thread(make_sage_app(open_sage(configuration), configuration, settings)) as address:
        yield f"{address}/mcp"


@pytest.fixture(scope="session")
def count() -> CountTokens:
    """Load the tokenizer a second time, to check the server's token counts independently."""
    return load_token_counter()


@dataclass(frozen=True, slots=True)
class Tools:
    client: Client

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        """Call a tool and check that text, structured content and isError agree."""
        result = (await self.client.call_tool(tool, arguments)).model_dump(by_alias=True, mode="json")
        [block] = result["content"]
        body: Body = json.loads(block["text"])
        assert result["structuredContent"] == body
        assert result.get("isError", False) is ("error" in body)
        return body


@asynccontextmanager
async def open_tools(url: str, mode: str) -> AsyncIterator[Tools]:
    async with Client(streamable_http_client(url), mode="legacy" if mode == "legacy" else "auto") as client:
        yield Tools(client)


@pytest.fixture(params=["modern", "legacy"])
async def tools(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Tools]:
    """The tools over both generations of the protocol."""
    async with hold_open(open_tools(url, request.param)) as there:
        assert isinstance(there, Tools)
        yield there
