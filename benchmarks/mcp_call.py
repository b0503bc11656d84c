"""Measures the server's CPU time of a light `tools/call`, beside the MCP SDK's low-level server and FastMCP.

    python benchmarks/mcp_call.py [--rounds 25] [--calls 160] [--install-fastmcp] [--json FILE]

FastMCP needs other versions of packages, so it runs in a virtual environment in the user's cache folder, which
--install-fastmcp creates. Without that environment it is reported as not installed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from results import NOT_INSTALLED, Result, add_json_option, write_results

SERVERS = Path(__file__).with_name("mcp_servers.py")
FASTMCP = "fastmcp>=4.1,<4.2"
SERVER_PACKAGES = ("uvicorn", "httptools", "websockets")
# The HTTP server of all three contenders.
CONNECTIONS = 8
MODERN_VERSION = "2026-07-28"
LEGS = ("modern", "modern, writing", "session", "plain")
CALL_PARAMS = {"name": "echo", "arguments": {"text": "hello"}}
META = {"io.modelcontextprotocol/protocolVersion": MODERN_VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
MODERN_HEADERS = {"mcp-protocol-version": MODERN_VERSION, "mcp-method": "tools/call", "mcp-name": "echo"}
INITIALIZE_PARAMS = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclass(slots=True)
class Contender:
    name: str
    port: int
    process: subprocess.Popen[str]
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)


def start_contender(name: str, python: str) -> Contender:
    environment = {**os.environ, "KNOWLEDGE_LOG_LEVEL": "info"}
    process = subprocess.Popen(
        [python, str(SERVERS), name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(f"The server {name!r} did not start. To see why, run: {python} {SERVERS} {name}")
    return Contender(name, int(line), process)


def find_fastmcp_python(*, install: bool) -> str | None:
    """Return an interpreter with FastMCP, or None if it is not installed."""
    folder = Path(platformdirs.user_cache_dir("knowledge-server", appauthor=False)) / "fastmcp"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        if not install:
            return None
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", FASTMCP, *SERVER_PACKAGES], check=True)
    return str(python)


class HttpConnection:
    """A minimal HTTP client on one persistent connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader, self._writer, self._port = reader, writer, port

    @classmethod
    async def open(cls, port: int) -> HttpConnection:
        return cls(*await asyncio.open_connection("127.0.0.1", port), port)

    async def send(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[dict[str, str], bytes]:
        known = {"host": f"127.0.0.1:{self._port}", **headers, "content-length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in known.items())
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        return await self._receive()

    async def _receive(self) -> tuple[dict[str, str], bytes]:
        raw = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = raw.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if " 200 " not in f"{status} " and " 202 " not in f"{status} ":
            raise SystemExit(f"{status}: {await self._reader.read(300)!r}")
        if headers.get("transfer-encoding") == "chunked":
            return headers, await self._chunks()
        return headers, await self._reader.readexactly(int(headers.get("content-length", "0")))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return body

    def close(self) -> None:
        self._writer.close()


def make_request(leg: str, number: int) -> tuple[dict[str, str], bytes]:
    modern, name = leg.startswith("modern"), "echo-writing" if leg == "modern, writing" else "echo"
    params = {**CALL_PARAMS, "name": name, **({"_meta": META} if modern else {})}
    headers = {"content-type": "application/json"}
    if leg != "plain":
        headers["accept"] = "application/json, text/event-stream"
    if modern:
        headers.update({**MODERN_HEADERS, "mcp-name": name})
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    return headers, json.dumps(body).encode()


async def open_session(line: HttpConnection) -> dict[str, str]:
    """Open a session of protocol 2025-11-25 and return its headers."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE_PARAMS}
    answered, _ = await line.send("POST", "/mcp", headers, json.dumps(opening).encode())
    known = {"mcp-session-id": answered["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    await line.send("POST", "/mcp", {**headers, **known}, json.dumps(ready).encode())
    return known


async def read_cpu_seconds(contender: Contender) -> float:
    line = await HttpConnection.open(contender.port)
    _, body = await line.send("GET", "/cpu", {})
    line.close()
    return float(body)


async def call_repeatedly(port: int, leg: str, calls: int) -> None:
    line = await HttpConnection.open(port)
    known = await open_session(line) if leg == "session" else {}
    for number in range(calls):
        headers, body = make_request(leg, number + 1)
        _, answer = await line.send("POST", "/mcp", {**headers, **known}, body)
        if b"hello" not in answer or b'"error"' in answer:
            raise SystemExit(f"{leg}: {answer[:300]!r}")
    line.close()


async def measure_leg(contender: Contender, leg: str, calls: int) -> None:
    """Record the CPU milliseconds per call at eight concurrent calls."""
    await asyncio.gather(*(call_repeatedly(contender.port, leg, 5) for _ in range(CONNECTIONS)))
    before = await read_cpu_seconds(contender)
    await asyncio.gather(*(call_repeatedly(contender.port, leg, calls // CONNECTIONS) for _ in range(CONNECTIONS)))
    spent = (await read_cpu_seconds(contender) - before) * 1000 / (calls // CONNECTIONS * CONNECTIONS)
    contender.cpu_ms.setdefault(leg, []).append(spent)


@contextmanager
def run_contenders(names: dict[str, str]) -> Iterator[list[Contender]]:
    contenders: list[Contender] = []
    try:
        for name, python in names.items():
            contenders.append(start_contender(name, python))
        yield contenders
    finally:
        for contender in contenders:
            contender.process.terminate()
            contender.process.wait()


async def compare_contenders(contenders: list[Contender], rounds: int, calls: int) -> None:
    for _ in range(rounds):
        for leg in LEGS:
            for contender in contenders:
                if leg != "plain" or contender.name == "ours":
                    await measure_leg(contender, leg, calls)


def print_report(contenders: list[Contender]) -> None:
    medians = {one.name: {leg: statistics.median(spent) for leg, spent in one.cpu_ms.items()} for one in contenders}
    print(f"{'CPU ms per call':<16}" + "".join(f"{name:>10}" for name in medians))
    for leg in LEGS:
        row = "".join(f"{medians[name][leg]:>10.3f}" if leg in medians[name] else f"{'-':>10}" for name in medians)
        print(f"{leg:<16}{row}")
    spent = {one.name: one.cpu_ms for one in contenders}
    for leg in (leg for leg in LEGS if leg != "plain"):
        print(f"{leg}: ours / bare SDK = {median_ratio(spent, leg, 'bare'):.2f} (at most 1.20)", end="")
        print(
            f", ours / FastMCP = {median_ratio(spent, leg, 'fastmcp'):.2f} (below 0.50)" if "fastmcp" in spent else ""
        )


def make_results(contenders: list[Contender]) -> list[Result]:
    medians = {one.name: {leg: statistics.median(spent) for leg, spent in one.cpu_ms.items()} for one in contenders}
    return [
        Result(f"MCP tools/call, {leg}, CPU", medians["ours"][leg], "ms", peer, medians.get(name, {}).get(leg))
        for leg in LEGS
        if leg != "plain"
        for name, peer in (("bare", "bare SDK"), ("fastmcp", "FastMCP"))
    ]


def median_ratio(spent: dict[str, dict[str, list[float]]], leg: str, other: str) -> float:
    """Return the median of the ratios of the rounds, because both of a round ran under the same load."""
    return statistics.median(ours / theirs for ours, theirs in zip(spent["ours"][leg], spent[other][leg], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--calls", type=int, default=160)
    parser.add_argument("--install-fastmcp", action="store_true", help="create the environment of FastMCP")
    add_json_option(parser)
    options = parser.parse_args()
    names = {"ours": sys.executable, "bare": sys.executable}
    if python := find_fastmcp_python(install=options.install_fastmcp):
        names["fastmcp"] = python
    else:
        print(f"FastMCP: {NOT_INSTALLED}")
    with run_contenders(names) as contenders:
        asyncio.run(compare_contenders(contenders, options.rounds, options.calls))
        print_report(contenders)
        write_results(options.json, make_results(contenders))


if __name__ == "__main__":
    main()
