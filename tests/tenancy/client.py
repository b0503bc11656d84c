"""A client of one account that checks every response for secrets of others."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from tests.tenancy.model import SECRET_PREFIX, TenancyModel

SECRET = re.compile(rf"{SECRET_PREFIX}[a-z]{{4}}xj")


@dataclass(slots=True)
class TenantClient:
    name: str
    http: httpx.AsyncClient
    model: TenancyModel
    key: str = ""

    async def send_checked(
        self, method: str, path: str, body: Any = None, known: frozenset[str] = frozenset()
    ) -> httpx.Response:
        """Send a request and check that the response has no hidden secret except those in the request or in `known`."""
        sent = path + json.dumps(body)
        hidden = self.model.list_hidden_secrets(self.name)
        response = await self.http.request(method, path, json=body, headers={"X-API-Key": self.key})
        leaked = (set(SECRET.findall(response.text)) & hidden) - set(SECRET.findall(sent)) - known
        assert not leaked, f"{self.name} received {leaked} from {method} {path}: {response.text[:500]}"
        assert response.status_code < 500, f"{method} {path}: {response.text[:500]}"
        return response

    async def send_rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return await self.send_checked(method, f"/api/v1{path}", body)

    async def call_tool(self, address: str, name: str, **arguments: Any) -> httpx.Response:
        params = {"name": name, "arguments": arguments}
        return await self.send_rpc(address, "tools/call", params)

    async def send_rpc(self, address: str, method: str, params: Any) -> httpx.Response:
        return await self.send_checked("POST", address, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def find_secrets(text: str) -> set[str]:
    return set(SECRET.findall(text))
