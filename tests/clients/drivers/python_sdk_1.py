"""Drives the MCP Python SDK 1.x: run it with the interpreter of an environment that has it.

The argument is JSON, `{"url": …}` or `{"command": …, "args": […], "env": {…}}`. After connecting it prints the protocol
version and the tools as one line of JSON; then it calls the tool that each line of standard input names and prints the
answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client

CALL_SECONDS = 60


async def main(target: dict[str, Any]) -> None:
    async with AsyncExitStack() as stack:
        if "url" in target:
            connect = streamable_http.streamablehttp_client  # type: ignore[attr-defined]
            read, write, _ = await stack.enter_async_context(connect(target["url"]))
        else:
            read, write = await stack.enter_async_context(stdio_client(StdioServerParameters(**target)))
        limit: Any = timedelta(seconds=CALL_SECONDS)
        session: Any = await stack.enter_async_context(ClientSession(read, write, read_timeout_seconds=limit))
        opened = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        print(json.dumps({"protocol": opened.protocolVersion, "tools": tools}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                answer = await session.call_tool(**json.loads(line))
                text = "".join(part.text for part in answer.content if part.type == "text")
                print(json.dumps({"text": text, "is_error": bool(answer.isError)}), flush=True)
            except Exception as error:
                print(json.dumps({"failure": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
