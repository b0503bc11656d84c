"""`knowledge serve` as processes of their own, and a line between two of them that remembers what was said."""

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

from tests.contracts.serving import serving_beside

LIMIT = 60.0
ENGINE_KEY, MCP_KEY = "the engine's key", "the agents' key"
WORDS_ONLY = {"KNOWLEDGE_EMBEDDING": "none"}


class Served:
    """One process; it can be killed and started again at the same address."""

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
        self.url = self._address()
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()

    def _address(self) -> str:
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
        self.process.wait(LIMIT)
        self._reader.join(LIMIT)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def restart(self) -> None:
        self.start(self.port)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill(signal.SIGTERM)


@contextmanager
def served(*arguments: str, **environment: str) -> Iterator[Served]:
    process = Served(arguments, environment)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def an_engine(data: Path, **environment: str) -> Iterator[Served]:
    with served("serve", "--data", str(data), **{"KB_API_KEY": ENGINE_KEY, **WORDS_ONLY, **environment}) as process:
        yield process


@contextmanager
def an_mcp(data: Path, engine_url: str, **environment: str) -> Iterator[Served]:
    given = {"KB_ENGINE_URL": engine_url, "KB_API_KEY": ENGINE_KEY, "KB_MCP_API_KEY": MCP_KEY, **environment}
    with served("serve", "--toolsets", "kb", "--data", str(data), **given) as process:
        yield process


@dataclass(frozen=True)
class Said:
    """One request as it reached the engine."""

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
        """The parts of a form by their names."""
        head = f"Content-Type: {self.headers['content-type']}\r\n\r\n".encode()
        parts: dict[str, list[Message]] = {}
        for part in message_from_bytes(head + self.body).get_payload():
            assert isinstance(part, Message)
            parts.setdefault(str(part.get_param("name", header="content-disposition")), []).append(part)
        return parts

    def field(self, name: str) -> list[str]:
        return [bytes(part.get_payload(decode=True)).decode() for part in self.form().get(name, [])]


@dataclass
class Line:
    """Passes every request on to the engine, and keeps it."""

    upstream: str
    url: str = ""
    said: list[Said] = field(default_factory=list)
    pass_on: Callable[[Request], Awaitable[Response]] | None = None
    """Instead of `forward`, where a test wants the line to be bad."""

    async def answer(self, request: Request) -> Response:
        return await (self.pass_on or self.forward)(request)

    async def forward(self, request: Request) -> Response:
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "connection")}
        self.said.append(Said(request.method, request.url.path, dict(parse_qsl(request.url.query)), headers, body))
        async with httpx.AsyncClient(timeout=LIMIT) as http:
            answer = await http.request(
                request.method, f"{self.upstream}{request.url.path}", params=request.url.query, headers=headers,
                content=body,
            )  # fmt: skip
        return Response(answer.content, answer.status_code, {"content-type": answer.headers["content-type"]})


@contextmanager
def a_line(upstream: str) -> Iterator[Line]:
    line = Line(upstream)
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serving_beside(Starlette(routes=[Route("/{path:path}", line.answer, methods=methods)])) as url:
        line.url = url
        yield line
