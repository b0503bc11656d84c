# mypy: ignore-errors
# Runs with libraries that are not installed beside the project.
"""Converts every tool of an MCP endpoint with the libraries that are installed; prints the failures as JSON.

Runs in an environment of its own, without this project: python convert.py URL...
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


def make_converters(session: ClientSession) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    from agents.mcp import MCPServerStreamableHttp
    from agents.mcp.util import MCPUtil
    from agents.strict_schema import ensure_strict_json_schema
    from anthropic.lib.tools.mcp import async_mcp_tool
    from google.genai import types
    from google.genai._mcp_utils import mcp_to_gemini_tool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

    server = MCPServerStreamableHttp({"url": "http://localhost"})
    yield "google-genai", mcp_to_gemini_tool
    yield "google-genai, JSON schema", lambda tool: types.Schema.model_validate(tool.inputSchema)
    yield "openai-agents", lambda tool: MCPUtil.to_function_tool(tool, server, convert_schemas_to_strict=False)
    yield "openai-agents, strict", lambda tool: ensure_strict_json_schema(json.loads(json.dumps(tool.inputSchema)))
    yield "anthropic", lambda tool: async_mcp_tool(tool, session).to_dict()
    yield (
        "langchain",
        lambda tool: convert_to_openai_tool(convert_mcp_tool_to_langchain_tool(session, tool)),
    )


async def convert(url: str) -> dict[str, Any]:
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        failures = []
        for name, converter in make_converters(session):
            for tool in tools:
                try:
                    converter(tool)
                except Exception as error:
                    failures.append(f"{name}: {tool.name}: {type(error).__name__}: {error}"[:500])
        refusals = await call_without_arguments(session, tools[0])
        return {"tools": [tool.name for tool in tools], "failures": failures, "refusals": refusals}


async def call_without_arguments(session: ClientSession, tool: Any) -> list[str]:
    """Call a tool without its required arguments; return what the frameworks give to the model."""
    from anthropic.lib.tools.mcp import async_mcp_tool
    from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool

    langchain_tool = convert_mcp_tool_to_langchain_tool(session, tool)
    call = {"type": "tool_call", "id": "1", "name": tool.name, "args": {}}
    refusals = [str((await langchain_tool.ainvoke(call)).content)]
    try:
        await async_mcp_tool(tool, session).call({})
    except Exception as error:
        refusals.append(str(getattr(error, "content", error)))
    return refusals


print(json.dumps([asyncio.run(convert(url)) for url in sys.argv[1:]]))
