"""A client for Knowledge Server's manager endpoint in one file: JSON-RPC over HTTP, with an account's API key.

    KNOWLEDGE_MANAGER_API_KEY=... python python_client.py "What is Python?"

It needs httpx, and no MCP library.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeAlias

import httpx

Json: TypeAlias = dict[str, Any]

MAX_DELAY_SECONDS = 30


class KnowledgeManagerError(Exception):
    """An error response: the HTTP status, the error code and the message."""

    def __init__(self, status: int, error_code: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.retry_after = retry_after


def should_retry(error_code: str) -> bool:
    """Return whether the error is temporary: a server error or a rate limit."""
    return error_code.startswith(("server.", "rate_limit."))


def get_backoff_delay(error_code: str, attempt: int) -> int:
    """Return the seconds to wait: 1, 2, 4 and so on up to 30, and 0 for an error that is not temporary."""
    return min(MAX_DELAY_SECONDS, 2**attempt) if should_retry(error_code) else 0


class KnowledgeManagerMCPClient:
    def __init__(self, base_url: str, api_key: str, *, retries: int = 3, timeout: float = 30.0) -> None:
        self._http = httpx.Client(base_url=base_url, headers={"X-API-Key": api_key}, timeout=timeout)
        self._retries = retries
        self._ids = itertools.count(1)

    # -- tools ----------------------------------------------------------------------------------

    def query_knowledge(self, query: str, collections: Sequence[str] | None = None, n_results: int = 5) -> Json:
        """Search every collection that the account may read, or only the named ones."""
        arguments: Json = {"query": query, "n_results": n_results}
        if collections is not None:
            arguments["collections"] = list(collections)
        return self.call_tool("query_knowledge", arguments)

    def query_corpus(self, corpus_id: int, query: str, n_results: int = 5) -> Json:
        return self.call_tool("query_corpus", {"corpus_id": corpus_id, "query": query, "n_results": n_results})

    def list_collections(self) -> Json:
        return self.call_tool("list_collections")

    def list_corpuses(self, category: str | None = None, approved_only: bool = True) -> Json:
        arguments: Json = {"approved_only": approved_only}
        if category is not None:
            arguments["category"] = category
        return self.call_tool("list_corpuses", arguments)

    def call_tool(self, name: str, arguments: Json | None = None) -> Json:
        """Call a tool and return its result."""
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})

    def list_tools(self) -> list[Json]:
        tools: list[Json] = self.request("tools/list")["tools"]
        return tools

    # -- resources ------------------------------------------------------------------------------

    def list_resources(self) -> list[Json]:
        resources: list[Json] = self.request("resources/list")["resources"]
        return resources

    def read_resource(self, uri: str) -> str:
        """Return the Markdown of a corpus, such as corpus://42."""
        text: str = self.request("resources/read", {"uri": uri})["contents"][0]["text"]
        return text

    # -- the protocol ---------------------------------------------------------------------------

    def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request; temporary errors are retried with exponential backoff."""
        for attempt in itertools.count():
            try:
                return self._send(method, params or {})
            except KnowledgeManagerError as error:
                if attempt >= self._retries or not should_retry(error.error_code):
                    raise
                delay = get_backoff_delay(error.error_code, attempt)
                time.sleep(delay if error.retry_after is None else error.retry_after)
        raise AssertionError("the loop ends by return or raise")

    def _send(self, method: str, params: Json) -> Json:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        response = self._http.post("/api/v1/mcp/", json=message)
        answer: Json = response.json()
        if "error" in answer:
            wait = response.headers.get("Retry-After")
            raise KnowledgeManagerError(
                response.status_code,
                response.headers.get("X-MCP-Error-Code", ""),
                answer["error"]["message"],
                float(wait) if wait else None,
            )
        result: Json = answer["result"]
        return result

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> KnowledgeManagerMCPClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    base_url = os.environ.get("KNOWLEDGE_MANAGER_URL", "http://localhost:8000")
    question = " ".join(sys.argv[1:]) or "What is Python?"
    with KnowledgeManagerMCPClient(base_url, os.environ["KNOWLEDGE_MANAGER_API_KEY"]) as client:
        collections = client.list_collections()
        print(f"Found {collections['count']} collections")
        result = client.query_knowledge(question, n_results=5)
        print(result["context"] or "Nothing was found.")


if __name__ == "__main__":
    main()
