"""A client of one account that checks every response for secrets of others."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from knowledge.model.events import Event, EventKind
from knowledge.wire.events import EventParser
from tests.tenancy.model import SECRET_PREFIX, TenancyModel

LAST_KINDS = (EventKind.HELLO, EventKind.HEARTBEAT, EventKind.RESET)
SECRET = re.compile(rf"{SECRET_PREFIX}[a-z]{{4}}xj")


@dataclass(slots=True)
class TenantClient:
    name: str
    http: httpx.AsyncClient
    model: TenancyModel
    key: str = ""
    session: str = ""
    """Token of a browser session, which every second request to REST uses instead of the key."""
    sent: int = 0

    async def send_checked(
        self, method: str, path: str, body: Any = None, known: frozenset[str] = frozenset()
    ) -> httpx.Response:
        """Send a request and check that the response has no hidden secret except those in the request or in `known`."""
        sent = path + json.dumps(body)
        hidden = self.model.list_hidden_secrets(self.name)
        response = await self.http.request(method, path, json=body, headers=self._make_headers(path))
        leaked = (set(SECRET.findall(response.text)) & hidden) - set(SECRET.findall(sent)) - known
        assert not leaked, f"{self.name} received {leaked} from {method} {path}: {response.text[:500]}"
        assert response.status_code < 500, f"{method} {path}: {response.text[:500]}"
        return response

    def _make_headers(self, path: str) -> dict[str, str]:
        self.sent += 1
        is_rest = path.startswith("/api/v1/") and not path.startswith("/api/v1/mcp")
        if self.session and is_rest and self.sent % 2:
            return {"Cookie": f"knowledge_session={self.session}", "Sec-Fetch-Site": "same-origin"}
        return {"X-API-Key": self.key}

    async def send_rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.send_checked(method, f"/api/v1{path}", body)

    async def read_events(self, after: int) -> list[Event]:
        """Return what has happened after an event, until the stream waits for something new."""
        path, parser, found = f"/api/v1/events?after={after}", EventParser(), list[Event]()
        hidden = self.model.list_hidden_secrets(self.name)
        async with self.http.stream("GET", path, headers=self._make_headers(path)) as stream:
            assert stream.status_code == httpx.codes.OK
            async for line in stream.aiter_lines():
                assert not set(SECRET.findall(line)) & hidden, f"{self.name} received {line}"
                event = parser.parse_line(line)
                found += [event] if event is not None else []
                # What was missed ends with a heartbeat or a reset, which have the number that `hello` has not.
                if event is not None and (event.seq is not None) and event.kind in LAST_KINDS:
                    break
        return found

    async def call_tool(self, address: str, name: str, **arguments: Any) -> httpx.Response:
        params = {"name": name, "arguments": arguments}
        return await self.send_rpc(address, "tools/call", params)

    async def send_rpc(self, address: str, method: str, params: Any) -> httpx.Response:
        return await self.send_checked("POST", address, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def find_secrets(text: str) -> set[str]:
    return set(SECRET.findall(text))
