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
from tests.contracts.kb.processes import ENGINE_KEY, LIMIT, MCP_KEY, Line, Served, a_line, an_engine, an_mcp
from tests.contracts.roads import Body, Plain


@dataclass(frozen=True)
class Apart:
    engine: Served
    line: Line
    mcp: Served
    folder: Path
    """The data folder of the MCP process, in which it stages uploads."""


@pytest.fixture(scope="package")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    folder = tmp_path_factory.mktemp("mcp")
    with (
        an_engine(tmp_path_factory.mktemp("engine")) as engine,
        a_line(engine.url) as line,
        an_mcp(folder, line.url) as mcp,
    ):
        yield Apart(engine, line, mcp, folder)


@pytest.fixture
def line(apart: Apart) -> Line:
    """What was said until now is forgotten."""
    apart.line.said.clear()
    return apart.line


class Agent(Plain):
    """An agent elsewhere, and somebody beside the engine who sees when its jobs are done."""

    def __init__(self, http: httpx.AsyncClient, engine: RemoteEngine) -> None:
        super().__init__(http, "/mcp/kb")
        self.engine = engine

    async def kept(self, tool: str, /, **arguments: object) -> int:
        """Call a tool that adds something, and wait for its document."""
        return await self.document_of(await self.call(tool, **arguments))

    async def uploaded(self, filename: str, content: bytes, size: int = 2_000_000, **more: object) -> str:
        """Every part of a file sent, in order; what is left to do is to finish."""
        started = await self.call("kb_upload_start", filename=filename, total_size=len(content), **more)
        upload: str = started["upload_id"]
        for index in range(0, len(content), size):
            data = base64.b64encode(content[index : index + size]).decode()
            sent = await self.call("kb_upload_chunk", upload_id=upload, data=data, chunk_index=index // size)
            assert "received_bytes" in sent, sent
        return upload

    async def document_of(self, answer: Body) -> int:
        assert "job_id" in answer, answer
        job = await self.engine.wait(answer["job_id"], LIMIT)
        assert job.document_id is not None, job
        return job.document_id


async def answers(engine: RemoteEngine) -> None:
    """Until the engine is there."""
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                await engine.status()
                return
            except (EngineUnreachable, Starting):
                await asyncio.sleep(0.05)


@asynccontextmanager
async def agent_at(url: str, apart: Apart, key: str | None = MCP_KEY) -> AsyncIterator[Agent]:
    """An agent of an MCP process before the same engine."""
    engine = connect(apart.engine.url, ENGINE_KEY)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=LIMIT) as http:
        await answers(engine)
        yield Agent(http, engine)
    await engine.close()


@pytest.fixture
async def agent(apart: Apart) -> AsyncIterator[Agent]:
    async with agent_at(apart.mcp.url, apart) as there:
        yield there


async def until(happened: Callable[[], bool]) -> None:
    """Wait for something that happens by itself."""
    async with asyncio.timeout(LIMIT):
        while not happened():
            await asyncio.sleep(0.02)


def peak_memory(process: int) -> int | None:
    """The most bytes that a process has had in memory, where the system tells."""
    path = Path(f"/proc/{process}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", path.read_text()) if path.exists() else None
    return int(found[1]) << 10 if found else None
