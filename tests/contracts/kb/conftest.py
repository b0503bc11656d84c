"""An engine process, an MCP process and a recording proxy between them, shared by all tests of contract 004."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from knowledge.engine.remote.engine import RemoteEngine, connect
from knowledge.errors import EngineUnreachable, Starting
from tests.contracts.kb.processes import (
    ENGINE_KEY,
    MCP_KEY,
    WAIT_SECONDS,
    RecordingProxy,
    RestartableServer,
    run_engine_server,
    run_mcp_server,
    run_proxy,
)
from tests.contracts.transports import Body, PlainTransport


@dataclass(frozen=True)
class TwoProcesses:
    engine: RestartableServer
    proxy: RecordingProxy
    mcp: RestartableServer
    folder: Path
    """The data folder of the MCP process, in which it stages uploads."""


@pytest.fixture(scope="package")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoProcesses]:
    folder = tmp_path_factory.mktemp("mcp")
    with (
        run_engine_server(tmp_path_factory.mktemp("engine")) as engine,
        run_proxy(engine.url) as proxy,
        run_mcp_server(folder, proxy.url) as mcp,
    ):
        yield TwoProcesses(engine, proxy, mcp, folder)


@pytest.fixture
def proxy(processes: TwoProcesses) -> RecordingProxy:
    """The proxy without the requests of earlier tests."""
    processes.proxy.requests.clear()
    return processes.proxy


class Agent(PlainTransport):
    """A client of the MCP process, with a direct connection to the engine to wait for jobs."""

    def __init__(self, http: httpx.AsyncClient, engine: RemoteEngine) -> None:
        super().__init__(http, "/mcp/kb")
        self.engine = engine

    async def add_and_wait(self, tool: str, /, **arguments: object) -> int:
        """Call a tool that adds a document, wait for its job and return the document id."""
        return await self.wait_for_document(await self.call(tool, **arguments))

    async def upload_parts(self, filename: str, content: bytes, size: int = 2_000_000, **more: object) -> str:
        """Send all parts of a file in order and return the upload_id."""
        started = await self.call("kb_upload_start", filename=filename, total_size=len(content), **more)
        upload: str = started["upload_id"]
        for index in range(0, len(content), size):
            data = base64.b64encode(content[index : index + size]).decode()
            sent = await self.call("kb_upload_chunk", upload_id=upload, data=data, chunk_index=index // size)
            assert "received_bytes" in sent, sent
        return upload

    async def wait_for_document(self, answer: Body) -> int:
        assert "job_id" in answer, answer
        job = await self.engine.wait(answer["job_id"], WAIT_SECONDS)
        assert job.document_id is not None, job
        return job.document_id


async def wait_for_engine(engine: RemoteEngine) -> None:
    """Wait until the engine answers."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await engine.status()
                return
            except (EngineUnreachable, Starting):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def open_agent(url: str, processes: TwoProcesses, key: str | None = MCP_KEY) -> AsyncIterator[Agent]:
    """Connect to an MCP process of the shared engine."""
    engine = connect(processes.engine.url, ENGINE_KEY)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_SECONDS) as http:
        await wait_for_engine(engine)
        yield Agent(http, engine)
    await engine.close()


@pytest.fixture
async def agent(processes: TwoProcesses) -> AsyncIterator[Agent]:
    async with open_agent(processes.mcp.url, processes) as there:
        yield there


async def wait_until(happened: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not happened():
            await asyncio.sleep(0.02)


def read_peak_memory(process: int) -> int | None:
    """Return the peak memory of a process in bytes; None without /proc."""
    path = Path(f"/proc/{process}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", path.read_text()) if path.exists() else None
    return int(found[1]) << 10 if found else None
