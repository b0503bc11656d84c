"""A file goes through the MCP process to an engine that dies on the way: the client hears of it, and tries again."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.requests import Request
from starlette.responses import Response

from knowledge.engine.remote.engine import RemoteEngine, connect
from knowledge.model import DocumentFilter
from tests.contracts.kb.conftest import wait_for_engine
from tests.contracts.kb.processes import ENGINE_KEY, MCP_KEY, WAIT_SECONDS, run_engine_server, run_mcp_server, run_proxy
from tests.contracts.knowledge.samples import write_pdf

Body = dict[str, Any]
PART = 500


class Agent:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: object) -> Body:
        answer = await self._client.call_tool(tool, arguments)
        body = answer.structured_content
        assert isinstance(body, dict)
        assert bool(answer.is_error) is (body.get("success") is False)
        return body

    async def send(self, upload: str, content: bytes, first: int = 0) -> None:
        for index in range(first, -(-len(content) // PART)):
            data = base64.b64encode(content[index * PART : (index + 1) * PART]).decode()
            sent = await self.call("kb_upload_chunk", upload_id=upload, data=data, chunk_index=index)
            assert "received_bytes" in sent, sent


@asynccontextmanager
async def an_agent(url: str) -> AsyncIterator[Agent]:
    headers = {"Authorization": f"Bearer {MCP_KEY}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield Agent(client)


def a_report(folder: Path) -> bytes:
    write_pdf(folder / "report.pdf", *(f"Page {number} tells of the river in year {number}" for number in range(1, 9)))
    return (folder / "report.pdf").read_bytes()


async def kept_once(engine: RemoteEngine, agent: Agent, answer: Body) -> int:
    """The one document, found by its text, with everything in step."""
    job = await engine.wait(answer["job_id"], WAIT_SECONDS)
    assert job.document_id is not None, job
    found = await agent.call("kb_search", query="river in year 7", collection="reports", top=1)
    assert (found["results"][0]["document_id"], found["results"][0]["chunk_metadata"]["page"]) == (job.document_id, 7)
    assert (await engine.documents(DocumentFilter())).total == 1
    assert await engine.verify() == []
    return job.document_id


@pytest.mark.requirement("004.serve.killed")
async def test_an_engine_that_dies_between_the_parts_is_no_loss(tmp_path: Path) -> None:
    content = a_report(tmp_path)
    with run_engine_server(tmp_path / "engine") as engine, run_mcp_server(tmp_path / "mcp", engine.url) as mcp:
        beside = connect(engine.url, ENGINE_KEY)
        await wait_for_engine(beside)
        async with an_agent(mcp.url) as agent:
            begun = await agent.call(
                "kb_upload_start", filename="report.pdf", total_size=len(content), collection="reports", tags=["river"]
            )
            upload = begun["upload_id"]
            await agent.send(upload, content[: PART * 2])
            engine.kill()
            await agent.send(upload, content, first=2)
            told = await agent.call("kb_upload_finish", upload_id=upload)
            assert told["error"] == "engine_unreachable"
            assert engine.url in told["message"]
            assert "call kb_upload_finish again" in told["hint"]
            engine.restart()
            await wait_for_engine(beside)
            answer = await agent.call("kb_upload_finish", upload_id=upload)
            document = await kept_once(beside, agent, answer)

            again = await agent.call(
                "kb_upload_start", filename="copy.pdf", total_size=len(content), collection="reports"
            )
            await agent.send(again["upload_id"], content)
            same = await agent.call("kb_upload_finish", upload_id=again["upload_id"])
            assert (same["duplicate"], same["document_id"]) == (True, document)
            assert (await beside.documents(DocumentFilter())).total == 1
        await beside.close()


async def test_an_engine_that_dies_after_it_accepted_keeps_the_file_once(tmp_path: Path) -> None:
    content = a_report(tmp_path)
    with (
        run_engine_server(tmp_path / "engine") as engine,
        run_proxy(engine.url) as line,
        run_mcp_server(tmp_path / "mcp", line.url) as mcp,
    ):

        async def cut(request: Request) -> Response:
            """The engine takes the file in, and dies before anybody hears of it."""
            if engine.process.poll() is None:
                assert (await line.forward(request)).status_code == 202
                engine.kill()
            return Response("bad gateway", 502)

        beside = connect(engine.url, ENGINE_KEY)
        await wait_for_engine(beside)
        async with an_agent(mcp.url) as agent:
            begun = await agent.call(
                "kb_upload_start", filename="report.pdf", total_size=len(content), collection="reports"
            )
            await agent.send(begun["upload_id"], content)
            line.handler = cut
            told = await agent.call("kb_upload_finish", upload_id=begun["upload_id"])
            assert told["error"] == "engine_unreachable"
            line.handler = None
            engine.restart()
            await wait_for_engine(beside)
            answer = await agent.call("kb_upload_finish", upload_id=begun["upload_id"])
            await kept_once(beside, agent, answer)
            assert (await agent.call("kb_jobs"))["total"] == 1
        await beside.close()
