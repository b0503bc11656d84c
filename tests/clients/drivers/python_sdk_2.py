"""Drives the MCP Python SDK 2.x; see `python_sdk_1.py`. A second argument selects how it negotiates the version."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

CALL_SECONDS = 60


async def main(target: dict[str, Any], mode: str = "auto") -> None:
    transport: Any = (
        streamable_http_client(target["url"]) if "url" in target else stdio_client(StdioServerParameters(**target))
    )
    async with Client(transport, mode=mode, read_timeout_seconds=CALL_SECONDS) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        print(json.dumps({"protocol": client.protocol_version, "tools": tools}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                answer = await client.call_tool(**json.loads(line))
                text = "".join(part.text for part in answer.content if part.type == "text")
                print(json.dumps({"text": text, "is_error": bool(answer.is_error)}), flush=True)
            except Exception as error:
                print(json.dumps({"failure": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), *sys.argv[2:]))
