"""Uploads through a separate MCP process to an engine that dies: the client gets an error, and a retry succeeds."""

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
PART_BYTES = 500


class Agent:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def call_tool(self, tool: str, **arguments: object) -> Body:
        answer = await self._client.call_tool(tool, arguments)
        body = answer.structured_content
        assert isinstance(body, dict)
        assert bool(answer.is_error) is (body.get("success") is False)
        return body

    async def send_parts(self, upload: str, content: bytes, first: int = 0) -> None:
        for index in range(first, -(-len(content) // PART_BYTES)):
            data = base64.b64encode(content[index * PART_BYTES : (index + 1) * PART_BYTES]).decode()
            sent = await self.call_tool("kb_upload_chunk", upload_id=upload, data=data, chunk_index=index)
            assert "received_bytes" in sent, sent


@asynccontextmanager
async def connect_agent(url: str) -> AsyncIterator[Agent]:
    headers = {"Authorization": f"Bearer {MCP_KEY}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield Agent(client)


def make_report(folder: Path) -> bytes:
    write_pdf(folder / "report.pdf", *(f"Page {number} describes the river in year {number}" for number in range(1, 9)))
    return (folder / "report.pdf").read_bytes()


async def check_stored_once(engine: RemoteEngine, agent: Agent, answer: Body) -> int:
    """Check that the upload became exactly one document, and return its id."""
    job = await engine.wait(answer["job_id"], WAIT_SECONDS)
    assert job.document_id is not None, job
    found = await agent.call_tool("kb_search", query="river in year 7", collection="reports", top=1)
    assert (found["results"][0]["document_id"], found["results"][0]["chunk_metadata"]["page"]) == (job.document_id, 7)
    assert (await engine.documents(DocumentFilter())).total == 1
    assert await engine.verify() == []
    return job.document_id


@pytest.mark.requirement("004.serve.killed")
async def test_an_upload_survives_an_engine_that_dies_between_its_parts(tmp_path: Path) -> None:
    content = make_report(tmp_path)
    with run_engine_server(tmp_path / "engine") as engine, run_mcp_server(tmp_path / "mcp", engine.url) as mcp:
        remote = connect(engine.url, ENGINE_KEY)
        await wait_for_engine(remote)
        async with connect_agent(mcp.url) as agent:
            upload_started = await agent.call_tool(
                "kb_upload_start", filename="report.pdf", total_size=len(content), collection="reports", tags=["river"]
            )
            upload = upload_started["upload_id"]
            await agent.send_parts(upload, content[: PART_BYTES * 2])
            engine.kill()
            await agent.send_parts(upload, content, first=2)
            refused = await agent.call_tool("kb_upload_finish", upload_id=upload)
            assert refused["error"] == "engine_unreachable"
            assert engine.url in refused["message"]
            assert "call kb_upload_finish again" in refused["hint"]
            engine.restart()
            await wait_for_engine(remote)
            answer = await agent.call_tool("kb_upload_finish", upload_id=upload)
            document = await check_stored_once(remote, agent, answer)

            again = await agent.call_tool(
                "kb_upload_start", filename="copy.pdf", total_size=len(content), collection="reports"
            )
            await agent.send_parts(again["upload_id"], content)
            same = await agent.call_tool("kb_upload_finish", upload_id=again["upload_id"])
            assert (same["duplicate"], same["document_id"]) == (True, document)
            assert (await remote.documents(DocumentFilter())).total == 1
        await remote.close()


async def test_an_engine_that_dies_after_accepting_a_file_stores_it_once(tmp_path: Path) -> None:
    content = make_report(tmp_path)
    with (
        run_engine_server(tmp_path / "engine") as engine,
        run_proxy(engine.url) as proxy,
        run_mcp_server(tmp_path / "mcp", proxy.url) as mcp,
    ):

        async def accept_and_kill(request: Request) -> Response:
            """Let the engine accept the file, kill it, and answer 502 instead of its answer."""
            if engine.process.poll() is None:
                assert (await proxy.forward(request)).status_code == 202
                engine.kill()
            return Response("bad gateway", 502)

        remote = connect(engine.url, ENGINE_KEY)
        await wait_for_engine(remote)
        async with connect_agent(mcp.url) as agent:
            upload_started = await agent.call_tool(
                "kb_upload_start", filename="report.pdf", total_size=len(content), collection="reports"
            )
            await agent.send_parts(upload_started["upload_id"], content)
            proxy.handler = accept_and_kill
            refused = await agent.call_tool("kb_upload_finish", upload_id=upload_started["upload_id"])
            assert refused["error"] == "engine_unreachable"
            proxy.handler = None
            engine.restart()
            await wait_for_engine(remote)
            answer = await agent.call_tool("kb_upload_finish", upload_id=upload_started["upload_id"])
            await check_stored_once(remote, agent, answer)
            assert (await agent.call_tool("kb_jobs"))["total"] == 1
        await remote.close()
