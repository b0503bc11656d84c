"""Drives the client of FastMCP; see `python_sdk_1.py`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found]
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport  # type: ignore[import-not-found]

CALL_SECONDS = 60


async def main(target: dict[str, Any]) -> None:
    transport = StreamableHttpTransport(target["url"]) if "url" in target else StdioTransport(**target)
    async with Client(transport, timeout=CALL_SECONDS) as client:
        tools = [tool.name for tool in await client.list_tools()]
        print(json.dumps({"protocol": find_protocol_version(client), "tools": tools}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            try:
                answer = await client.call_tool(**json.loads(line), raise_on_error=False)
                text = "".join(part.text for part in answer.content if part.type == "text")
                print(json.dumps({"text": text, "is_error": bool(answer.is_error)}), flush=True)
            except Exception as error:
                print(json.dumps({"failure": f"{type(error).__name__}: {error}"}), flush=True)


def find_protocol_version(client: Any) -> str:
    """Return the negotiated version; FastMCP before 4 has it in the answer to initialize only."""
    version = getattr(client.session, "protocol_version", None)
    return str(version or client.initialize_result.protocolVersion)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
