"""The transports of the tools: the official client in both protocol eras, plain HTTP, WebSocket, stdio."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import httpx
import mcp_types as types
import websockets
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from pydantic import TypeAdapter

Body: TypeAlias = dict[str, Any]
There = TypeVar("There")
OnProgress: TypeAlias = Callable[[float, str], None]

TRANSPORTS = ("modern", "legacy", "plain", "websocket", "stdio")
WAIT_SECONDS = 30.0
START_SECONDS = 180.0
"""Limit for the first answer of a process, which imports everything and loads its model on a busy machine."""


class Transport(Protocol):
    """A connection to the server that sends raw messages and calls tools."""

    async def rpc(self, method: str, params: Any = None) -> Body:
        """Return the whole response to a request."""

    async def notify(self, method: str, params: Body) -> None: ...

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        """Return the body of a tool's answer after checking its envelope."""


def unwrap(result: Body) -> Body:
    """Return the body of a tool result; check that its text block and `structuredContent` are the same."""
    [block] = result["content"]
    assert block["type"] == "text"
    body: Body = json.loads(block["text"])
    assert result["structuredContent"] == body
    assert result.get("isError", False) is (body.get("success") is False)
    return body


class SdkTransport:
    """The official Python client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def rpc(self, method: str, params: Any = None) -> Body:
        request = types.Request[Any, str](method=method, params=params)
        return {"result": await self.client.session.send_request(request, TypeAdapter(dict[str, Any]))}

    async def notify(self, method: str, params: Body) -> None:
        notification = types.Notification[Any, str](method=method, params=params)
        await self.client.session.send_notification(notification)  # type: ignore[arg-type]  # not a notification of MCP

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        answer = await self.client.call_tool(tool, arguments)
        return unwrap(answer.model_dump(by_alias=True, mode="json"))


@asynccontextmanager
async def open_sdk_transport(url: str, mode: str) -> AsyncIterator[SdkTransport]:
    async with Client(streamable_http_client(url), mode="legacy" if mode == "legacy" else "auto") as client:
        assert (client.protocol_version >= "2026") is (mode == "modern")
        yield SdkTransport(client)


class PlainTransport:
    """One POST without any MCP header, as curl sends it."""

    def __init__(self, http: httpx.AsyncClient, path: str = "/mcp") -> None:
        self.http, self.path = http, path

    async def rpc(self, method: str, params: Any = None) -> Body:
        message: Body = {"jsonrpc": "2.0", "id": "1", "method": method}
        if params is not None:
            message["params"] = params
        response = await self.http.post(self.path, json=message, headers={"accept": ""})
        answer: Body = response.json()
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] == "1"
        return answer

    async def notify(self, method: str, params: Body) -> None:
        response = await self.http.post(self.path, json={"jsonrpc": "2.0", "method": method, "params": params})
        assert (response.status_code, response.content) == (202, b"")

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        return unwrap((await self.rpc("tools/call", {"name": tool, "arguments": arguments}))["result"])


class WebSocketTransport:
    """A WebSocket without an MCP handshake; records the notifications that it receives."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self.socket = socket
        self.notifications: list[Body] = []
        self._ids = itertools.count(1)

    async def send(self, method: str, params: Any = None, *, request_id: int | None = None) -> None:
        message: Body = {"jsonrpc": "2.0", "method": method}
        if request_id is not None:
            message["id"] = request_id
        if params is not None:
            message["params"] = params
        await self.socket.send(json.dumps(message))

    async def notify(self, method: str, params: Body) -> None:
        await self.send(method, params)

    async def receive(self) -> Body:
        message: Body = json.loads(await asyncio.wait_for(self.socket.recv(), WAIT_SECONDS))
        return message

    async def rpc(self, method: str, params: Any = None) -> Body:
        wanted = next(self._ids)
        await self.send(method, params, request_id=wanted)
        while (message := await self.receive()).get("id") != wanted:
            self.notifications.append(message)
        return message

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        return unwrap((await self.rpc("tools/call", {"name": tool, "arguments": arguments}))["result"])


class StdioTransport:
    """A server process over standard input and output; can be used from several event loops."""

    def __init__(self, data: Path, **environment: str) -> None:
        self.data = data
        command = [sys.executable, "-m", "knowledge", "serve", "--transport", "stdio", "--data", str(data)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        self._ids = itertools.count(1)
        self._limit = START_SECONDS
        self._waiting: dict[str, queue.Queue[Body]] = {}
        self.notifications: list[Body] = []
        self._errors = queue.Queue[Body]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            waiting = self._waiting.get(str(message.get("id")))
            if waiting is not None:
                waiting.put(message)
            elif "id" not in message:
                self.notifications.append(message)
            else:
                self._errors.put(message)

    def request(self, method: str, params: Any = None) -> Body:
        wanted, answers = f"request-{next(self._ids)}", queue.Queue[Body]()
        self._waiting[wanted] = answers
        self.write(json.dumps({"jsonrpc": "2.0", "id": wanted, "method": method, "params": params or {}}))
        answer = answers.get(timeout=self._limit)
        self._limit = WAIT_SECONDS
        return answer

    def write_and_read_error(self, line: str) -> Body:
        """Write a line that is not a request of `request()` and return the error that answers it."""
        self.write(line)
        return self._errors.get(timeout=self._limit)

    def list_unexpected(self) -> list[Body]:
        """Return the responses that no request waits for."""
        return [self._errors.get_nowait() for _ in range(self._errors.qsize())]

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    async def rpc(self, method: str, params: Any = None) -> Body:
        return await asyncio.to_thread(self.request, method, params)

    async def notify(self, method: str, params: Body) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    async def call(self, tool: str, /, **arguments: Any) -> Body:
        return unwrap((await self.rpc("tools/call", {"name": tool, "arguments": arguments}))["result"])

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        self._process.stdout.close()


@asynccontextmanager
async def open_transport(name: str, url: str, process: StdioTransport | None) -> AsyncIterator[Transport]:
    match name:
        case "modern" | "legacy":
            async with open_sdk_transport(f"{url}/mcp", name) as client:
                yield client
        case "plain":
            async with httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http:
                yield PlainTransport(http)
        case "websocket":
            async with websockets.connect(f"{url.replace('http', 'ws', 1)}/mcp") as socket:
                yield WebSocketTransport(socket)
        case _:
            assert process is not None
            yield process


@asynccontextmanager
async def hold_open(opening: AbstractAsyncContextManager[There]) -> AsyncIterator[There]:
    """Open and close a transport in one task, which the cancel scopes of the client require in a fixture."""
    ready: asyncio.Future[There] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def keep() -> None:
        try:
            async with opening as there:
                ready.set_result(there)
                await leave.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    task = asyncio.create_task(keep())
    try:
        yield await ready
    finally:
        leave.set()
        await task
