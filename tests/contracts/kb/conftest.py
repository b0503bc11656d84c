"""An engine process, an MCP process, and a line between them; started once for all tests of this contract."""

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
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoProcesses]:
    folder = tmp_path_factory.mktemp("mcp")
    with (
        run_engine_server(tmp_path_factory.mktemp("engine")) as engine,
        run_proxy(engine.url) as line,
        run_mcp_server(folder, line.url) as mcp,
    ):
        yield TwoProcesses(engine, line, mcp, folder)


@pytest.fixture
def line(apart: TwoProcesses) -> RecordingProxy:
    """What was said until now is forgotten."""
    apart.proxy.requests.clear()
    return apart.proxy


class Agent(PlainTransport):
    """An agent elsewhere, and somebody beside the engine who sees when its jobs are done."""

    def __init__(self, http: httpx.AsyncClient, engine: RemoteEngine) -> None:
        super().__init__(http, "/mcp/kb")
        self.engine = engine

    async def add_and_wait(self, tool: str, /, **arguments: object) -> int:
        """Call a tool that adds something, and wait for its document."""
        return await self.wait_for_document(await self.call(tool, **arguments))

    async def upload_parts(self, filename: str, content: bytes, size: int = 2_000_000, **more: object) -> str:
        """Every part of a file sent, in order; what is left to do is to finish."""
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
    """Until the engine is there."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                await engine.status()
                return
            except (EngineUnreachable, Starting):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def open_agent(url: str, apart: TwoProcesses, key: str | None = MCP_KEY) -> AsyncIterator[Agent]:
    """An agent of an MCP process before the same engine."""
    engine = connect(apart.engine.url, ENGINE_KEY)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_SECONDS) as http:
        await wait_for_engine(engine)
        yield Agent(http, engine)
    await engine.close()


@pytest.fixture
async def agent(apart: TwoProcesses) -> AsyncIterator[Agent]:
    async with open_agent(apart.mcp.url, apart) as there:
        yield there


async def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not happened():
            await asyncio.sleep(0.02)


def read_peak_memory(process: int) -> int | None:
    """The most bytes that a process has had in memory, where the system tells."""
    path = Path(f"/proc/{process}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", path.read_text()) if path.exists() else None
    return int(found[1]) << 10 if found else None
