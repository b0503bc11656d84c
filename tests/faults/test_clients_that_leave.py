"""A client that disconnects, at any stage, leaves no traceback in the log."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import websockets

from tests.support.server_process import TIMEOUT_SECONDS, ServerProcess, run_server_process

WS_HEAD = (
    b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: " + base64.b64encode(bytes(16)) + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
HALF_FORM = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b'Content-Length: 100000\r\n\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nabc'
)
ACCEPT_HEADER = b"Accept: application/json, text/event-stream\r\n"
INITIALIZE = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}  # fmt: skip
SEARCH = {
    "jsonrpc": "2.0", "id": 2, "method": "tools/call",
    "params": {"name": "knowledge-search", "arguments": {"query": "tea"}},
}  # fmt: skip


def make_post(path: str, body: bytes, *, declared: int | None = None, headers: bytes = b"") -> bytes:
    size = len(body) if declared is None else declared
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n"
    return head.encode() + headers + b"\r\n" + body


SEARCH_BYTES = json.dumps(SEARCH).encode()
INITIALIZE_BYTES = json.dumps(INITIALIZE).encode()
REST_SEARCH_BYTES = b'{"query": "tea"}'
MODERN_HEADERS = (
    b"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: knowledge-search\r\n" + ACCEPT_HEADER
)
BYTES_BY_STAGE = {
    "connected": b"",
    "half a head": b"GET /health HTTP/1.1\r\nHost: ",
    "half a body for REST": make_post("/api/v1/search", b"{", declared=1000),
    "half a form": HALF_FORM,
    "half a body for plain MCP": make_post("/mcp", b"{", declared=1000),
    "half a body for a session": make_post(
        "/mcp", b"{", declared=1000, headers=b"Mcp-Session-Id: abc\r\n" + ACCEPT_HEADER
    ),
    "half a body for the modern era": make_post("/mcp", b"{", declared=1000, headers=MODERN_HEADERS),
    "half a body for the manager": make_post("/api/v1/mcp", b"{", declared=1000),
    "half a body for the stream": make_post("/api/v1/mcp/query/stream", b"{", declared=1000),
    "a REST call before its answer": make_post("/api/v1/search", REST_SEARCH_BYTES),
    "a plain call before its answer": make_post("/mcp", SEARCH_BYTES),
    "a handshake before its answer": make_post("/mcp", INITIALIZE_BYTES, headers=ACCEPT_HEADER),
    "a modern call before its answer": make_post("/mcp", SEARCH_BYTES, headers=MODERN_HEADERS),
    "a WebSocket during its handshake": WS_HEAD,
    "half a WebSocket frame": WS_HEAD + b"\x81\xfe",
    "a backup before its answer": b"GET /api/v1/backup HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with run_server_process(tmp_path_factory.mktemp("server")) as started:
        note = {"note": "Green tea is brewed at eighty degrees."}
        assert httpx.post(f"{started.url}/api/v1/jobs", json=note, timeout=TIMEOUT_SECONDS).status_code == 202
        yield started


def check_log(server: ServerProcess) -> None:
    assert server.get_health() == 200
    log = server.log.read_text("utf-8")
    assert "Traceback" not in log and " error " not in log, log[-6000:]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("sent", BYTES_BY_STAGE.values(), ids=BYTES_BY_STAGE.keys())
def test_a_connection_that_ends_leaves_no_traceback(sent: bytes, reset: bool, server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS) as client:
        client.sendall(sent)
        server.get_health()  # the server has read the bytes when it answers this
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    check_log(server)


@pytest.mark.parametrize("messages", [[], [INITIALIZE], [SEARCH], [INITIALIZE, SEARCH], ["no JSON at all"]])
async def test_a_websocket_that_is_cut_leaves_no_traceback(messages: list[object], server: ServerProcess) -> None:
    for closes in (True, False):
        connection = await websockets.connect(f"ws://127.0.0.1:{server.port}/mcp")
        for message in messages:
            await connection.send(json.dumps(message) if isinstance(message, dict) else str(message))
        if closes:
            await connection.close()
        else:
            connection.transport.abort()
            await connection.wait_closed()
    await asyncio.to_thread(check_log, server)


async def test_a_stream_of_a_session_that_is_cut_leaves_no_traceback(server: ServerProcess) -> None:
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=server.url, headers=accept, timeout=TIMEOUT_SECONDS) as http:
        initialized = await http.post("/mcp", json=INITIALIZE)
        session = {"Mcp-Session-Id": initialized.headers["mcp-session-id"]}
        async with http.stream("GET", "/mcp", headers=session) as listening:
            assert listening.status_code == 200
        async with http.stream("POST", "/mcp", json=SEARCH, headers=session) as called:
            assert called.status_code == 200
    await asyncio.to_thread(check_log, server)


@pytest.mark.parametrize("closed", ["input", "both"])
def test_a_stdio_client_that_leaves_during_a_call_leaves_no_traceback(closed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "knowledge", "--data", str(tmp_path), "serve", "--transport", "stdio"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    environment = {**inherited, "KNOWLEDGE_EMBEDDING": "none"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes) as process:  # type: ignore[call-overload]
        process.stdin.write(INITIALIZE_BYTES + b"\n")
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.stdin.write(SEARCH_BYTES + b"\n" + SEARCH_BYTES + b"\n" + b'{"half')
        process.stdin.flush()
        if closed == "both":
            process.stdout.close()
        process.stdin.close()
        log = process.stderr.read()
        process.wait(TIMEOUT_SECONDS)
    assert b"Traceback" not in log, log[-6000:]
