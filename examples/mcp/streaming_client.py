"""A streaming query against Knowledge Server: results arrive collection by collection, as server-sent events.

    KNOWLEDGE_MANAGER_API_KEY=... python streaming_client.py "What is Python?"

It needs httpx.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

import httpx

Event: TypeAlias = dict[str, Any]


async def stream_query(
    base_url: str,
    api_key: str,
    query: str,
    collections: Sequence[str] | None = None,
    n_results: int = 5,
    timeout: float = 60.0,
) -> AsyncIterator[Event]:
    """Yield the events of a query; an error is an event of the type `error`."""
    body: Event = {"query": query, "n_results": n_results}
    if collections is not None:
        body["collections"] = list(collections)
    headers = {"X-API-Key": api_key, "Accept": "text/event-stream"}
    async with (
        httpx.AsyncClient(base_url=base_url, timeout=timeout) as http,
        http.stream("POST", "/api/v1/mcp/query/stream", json=body, headers=headers) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("data: "):  # lines that begin with a colon are heartbeats
                yield json.loads(line.removeprefix("data: "))


def print_event(event: Event) -> None:
    match event["type"]:
        case "metadata":
            print(f"Searching {', '.join(event['collections']) or 'nothing: there are no collections yet'}")
        case "result":
            print(f"{event['rank']}. [{event['relevance_score']:.2f}] {event['text'][:100]}")
        case "collection_complete":
            print(f"-- {event['collection']}: {event['num_results']} results")
        case "collection_error":
            print(f"-- {event['collection']}: {event['error']}")
        case "done":
            print(f"{event['total_results']} results in all")
        case "error":
            print(f"{event['error_code']}: {event['detail']}")


async def main() -> None:
    base_url = os.environ.get("KNOWLEDGE_MANAGER_URL", "http://localhost:8000")
    question = " ".join(sys.argv[1:]) or "What is Python?"
    async for event in stream_query(base_url, os.environ["KNOWLEDGE_MANAGER_API_KEY"], question):
        print_event(event)


if __name__ == "__main__":
    asyncio.run(main())
