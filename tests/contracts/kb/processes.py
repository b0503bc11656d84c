"""Runs `knowledge serve` processes, and a recording proxy between two of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.contracts.app_server import serve_app_in_thread

WAIT_SECONDS = 60.0
ENGINE_KEY, MCP_KEY = "the engine's key", "the agents' key"
WITHOUT_MODEL = {"KNOWLEDGE_EMBEDDING": "none"}


class RestartableServer:
    """A server process that can be killed and restarted on the same port."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._arguments = [*arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
        self._environment = {**kept, **environment}
        self.lines: list[str] = []
        self.start(0)

    def start(self, port: int) -> None:
        command = [sys.executable, "-m", "knowledge", *self._arguments]
        environment = {**self._environment, "KNOWLEDGE_PORT": str(port)}
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        self.url = self._read_address()
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()

    def _read_address(self) -> str:
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if address := re.search(r"http://\S+:\d+", line):
                return address[0]
        raise AssertionError("".join(seen))

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def restart(self) -> None:
        self.start(self.port)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)


@contextmanager
def run_server(*arguments: str, **environment: str) -> Iterator[RestartableServer]:
    process = RestartableServer(arguments, environment)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def run_engine_server(data: Path, **environment: str) -> Iterator[RestartableServer]:
    with run_server(
        "serve", "--data", str(data), **{"KB_API_KEY": ENGINE_KEY, **WITHOUT_MODEL, **environment}
    ) as process:
        yield process


@contextmanager
def run_mcp_server(data: Path, engine_url: str, **environment: str) -> Iterator[RestartableServer]:
    given = {"KB_ENGINE_URL": engine_url, "KB_API_KEY": ENGINE_KEY, "KB_MCP_API_KEY": MCP_KEY, **environment}
    with run_server("serve", "--toolsets", "kb", "--data", str(data), **given) as process:
        yield process


@dataclass(frozen=True)
class ProxiedRequest:
    """One request to the engine."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    def form(self) -> dict[str, list[Message]]:
        """Return the parts of a multipart form by name."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        parts: dict[str, list[Message]] = {}
        for part in message_from_bytes(head + self.body).get_payload():
            assert isinstance(part, Message)
            parts.setdefault(str(part.get_param("name", header="content-disposition")), []).append(part)
        return parts

    def field(self, name: str) -> list[str]:
        return [bytes(part.get_payload(decode=True)).decode() for part in self.form().get(name, [])]


@dataclass
class RecordingProxy:
    """Forwards every request to the engine and records it."""

    upstream: str
    url: str = ""
    requests: list[ProxiedRequest] = field(default_factory=list)
    handler: Callable[[Request], Awaitable[Response]] | None = None
    """Replaces `forward` in tests of a broken connection."""

    async def answer(self, request: Request) -> Response:
        return await (self.handler or self.forward)(request)

    async def forward(self, request: Request) -> Response:
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "connection")}
        self.requests.append(
            ProxiedRequest(request.method, request.url.path, dict(parse_qsl(request.url.query)), headers, body)
        )
        async with httpx.AsyncClient(timeout=WAIT_SECONDS) as http:
            answer = await http.request(
                request.method, f"{self.upstream}{request.url.path}", params=request.url.query, headers=headers,
                content=body,
            )  # fmt: skip
        return Response(answer.content, answer.status_code, {"content-type": answer.headers["content-type"]})


@contextmanager
def run_proxy(upstream: str) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(upstream)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serve_app_in_thread(Starlette(routes=[Route("/{path:path}", proxy.answer, methods=methods)])) as url:
        proxy.url = url
        yield proxy
