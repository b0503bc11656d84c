"""Contract 000: progress and cancellation on every transport."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
import websockets

from knowledge.model import JobStatus
from tests.contracts.knowledge.conftest import Product, clear_knowledge_base, data_folder_of
from tests.contracts.knowledge.samples import write_pdf
from tests.contracts.transports import (
    START_SECONDS,
    WAIT_SECONDS,
    Body,
    PlainTransport,
    StdioTransport,
    Transport,
    WebSocketTransport,
    open_sdk_transport,
)

PAGES = 10
LONG_TEXT_WORDS = 40_000


def write_pages(files_folder: Path, count: int = PAGES) -> Path:
    path = files_folder / f"{uuid4().hex}.pdf"
    write_pdf(path, *(f"Page {number} speaks of {uuid4().hex}" for number in range(1, count + 1)))
    return path


def write_long_text(files_folder: Path) -> Path:
    """Write a document that takes longer to process than a test waits."""
    path = files_folder / f"{uuid4().hex}.txt"
    path.write_text(" ".join(f"word{number}" for number in range(LONG_TEXT_WORDS)))
    return path


def check_progress(reports: list[tuple[float, str]], wanted: set[str]) -> None:
    shares = [share for share, _ in reports]
    assert shares == sorted(set(shares)), "progress must grow"
    assert all(0 <= share <= 1 for share in shares)
    assert {message for _, message in reports} & wanted, reports
    assert reports[-1] == (1.0, "Completed")


PAGE_MESSAGES = {f"Processing page {number} of {PAGES}" for number in range(1, PAGES + 1)}


@pytest.mark.requirement("000.progress.sync")
@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_a_synchronous_add_sends_progress_to_the_official_client(
    mode: str, product: Product, files_folder: Path
) -> None:
    reports: list[tuple[float, str]] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        assert total == 1.0
        reports.append((progress, message or ""))

    arguments = {"file_path": str(write_pages(files_folder)), "async": False}
    async with open_sdk_transport(f"{product.url}/mcp", mode) as there:
        answer = await there.client.call_tool("knowledge-add", arguments, progress_callback=record)
    assert answer.structured_content is not None and answer.structured_content["success"] is True
    check_progress(reports, PAGE_MESSAGES)


@pytest.mark.requirement("000.progress.sync")
async def test_a_synchronous_add_sends_progress_over_a_websocket(product: Product, files_folder: Path) -> None:
    async with websockets.connect(f"{product.url.replace('http', 'ws', 1)}/mcp") as connection:
        socket = WebSocketTransport(connection)
        call = {"name": "knowledge-add", "arguments": {"file_path": str(write_pages(files_folder)), "async": False}}
        answer = await socket.rpc("tools/call", {**call, "_meta": {"progressToken": "mine"}})
    assert answer["result"]["structuredContent"]["success"] is True
    assert {message["method"] for message in socket.notifications} == {"notifications/progress"}
    assert {message["params"]["progressToken"] for message in socket.notifications} == {"mine"}
    check_progress(
        [(item["params"]["progress"], item["params"]["message"]) for item in socket.notifications], PAGE_MESSAGES
    )


@pytest.mark.requirement("000.progress.async")
async def test_an_asynchronous_add_sends_progress_only_to_the_websocket_that_started_it(
    product: Product, files_folder: Path
) -> None:
    address = f"{product.url.replace('http', 'ws', 1)}/mcp"
    async with websockets.connect(address) as first, websockets.connect(address) as second:
        starter, other = WebSocketTransport(first), WebSocketTransport(second)
        await other.rpc("ping")
        added = await starter.call("knowledge-add", file_path=str(write_pages(files_folder)))
        last: Body = {}
        while last.get("progress") != 1.0:
            last = (await starter.receive())["params"]
            assert last["progressToken"] == added["task_id"]
        assert last["message"] == "Completed"
        assert (await other.rpc("ping"))["result"] == {}
        assert other.notifications == []


@pytest.mark.requirement("000.progress.async")
async def test_an_asynchronous_add_sends_progress_to_its_session(product: Product, files_folder: Path) -> None:
    accept = {"accept": "application/json, text/event-stream"}
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS, headers=accept) as http:
        hello = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening})
        session = {"mcp-session-id": hello.headers["mcp-session-id"]}
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        async with http.stream("GET", "/mcp", headers=session) as stream:
            call = {"name": "knowledge-add", "arguments": {"file_path": str(write_pages(files_folder))}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            answered = await http.post("/mcp", json=message, headers=session)
            data = next(line for line in answered.text.splitlines() if line.startswith("data: {"))
            task = json.loads(data[6:])["result"]["structuredContent"]["task_id"]
            async for line in stream.aiter_lines():
                if line.startswith("data: {"):
                    params = json.loads(line[6:])["params"]
                    assert params["progressToken"] == task
                    if params["progress"] == 1.0:
                        break
        await http.delete("/mcp", headers=session)


@pytest.mark.requirement("000.progress.async")
async def test_an_asynchronous_add_sends_progress_over_stdio(process: StdioTransport, files_folder: Path) -> None:
    added = await process.call("knowledge-add", file_path=str(write_pages(files_folder)))
    async with asyncio.timeout(WAIT_SECONDS):
        while not any(
            message["params"]["progressToken"] == added["task_id"] and message["params"]["progress"] == 1.0
            for message in process.notifications
        ):
            await process.rpc("ping")


@pytest.mark.requirement("000.progress.sync")
async def test_a_synchronous_add_sends_progress_over_stdio(process: StdioTransport, files_folder: Path) -> None:
    call = {"name": "knowledge-add", "arguments": {"file_path": str(write_pages(files_folder)), "async": False}}
    answer = await process.rpc("tools/call", {**call, "_meta": {"progressToken": "mine"}})
    assert answer["result"]["structuredContent"]["success"] is True
    told = [item["params"] for item in process.notifications if item["params"]["progressToken"] == "mine"]
    check_progress([(item["progress"], item["message"]) for item in told], PAGE_MESSAGES)


@pytest.mark.requirement("000.task.running")
async def test_a_running_task_reports_its_progress(client: Transport, files_folder: Path) -> None:
    added = await client.call("knowledge-add", file_path=str(write_long_text(files_folder)))
    async with asyncio.timeout(WAIT_SECONDS):
        while (status := await client.call("knowledge-task-status", task_id=added["task_id"]))["status"] != "running":
            pass
    assert status["success"] is True
    assert 0 <= status["progress"] < 1
    assert status["current_step"]
    assert status["completed_steps"] <= status["total_steps"] or status["total_steps"] == 0
    assert status["elapsed_time_seconds"] >= 0
    assert status["estimated_remaining_seconds"] > 0
    await client.rpc("tools/cancel", {"taskId": added["task_id"]})


async def check_nothing_left(client: Transport, product: Product) -> None:
    """Check that store, index and disk are empty."""
    files = data_folder_of(client, product) / "files"
    async with asyncio.timeout(WAIT_SECONDS):  # the job ends in the store before its file is deleted
        while any(path.is_file() for path in files.rglob("*")):
            await asyncio.sleep(0)
    base = (await client.call("knowledge-status"))["knowledge_base"]
    assert (base["document_count"], base["total_chunks"], base["total_size_bytes"]) == (0, 0, 0)
    if not isinstance(client, StdioTransport):
        status = await product.engine.status()
        assert (status.documents, status.chunks, status.queued, status.processing) == (0, 0, 0, 0)
        assert await product.engine.verify() == []


async def wait_until_ended(client: Transport, task: str) -> Body:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            status = await client.call("knowledge-task-status", task_id=task)
            if status["status"] not in ("queued", "running"):
                return status


@pytest.mark.requirement("000.cancel.request")
async def test_a_cancelled_task_leaves_nothing_behind(
    transport_client: Transport, product: Product, files_folder: Path
) -> None:
    task = (await transport_client.call("knowledge-add", file_path=str(write_long_text(files_folder))))["task_id"]
    answer = (await transport_client.rpc("tools/cancel", {"taskId": task}))["result"]
    assert answer["success"] is True
    assert (answer["task_id"], answer["status"]) == (task, "cancelled")
    status = await transport_client.call("knowledge-task-status", task_id=task)
    assert (status["success"], status["status"], status["error"]) == (False, "cancelled", "cancelled")
    again = (await transport_client.rpc("tools/cancel", {"taskId": task}))["result"]
    assert (again["success"], again["error"]) == (False, "conflict")
    await check_nothing_left(transport_client, product)


@pytest.mark.requirement("000.cancel.notification")
async def test_a_notification_also_cancels_a_task(
    transport_client: Transport, product: Product, files_folder: Path
) -> None:
    task = (await transport_client.call("knowledge-add", file_path=str(write_long_text(files_folder))))["task_id"]
    await transport_client.notify("tools/cancel", {"taskId": task})
    assert (await wait_until_ended(transport_client, task))["status"] == "cancelled"
    await check_nothing_left(transport_client, product)


@pytest.mark.requirement("000.cancel.unknown")
async def test_an_unknown_task_cannot_be_cancelled(product: Product) -> None:
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        plain = PlainTransport(http)
        answer = (await plain.rpc("tools/cancel", {"taskId": str(uuid4())}))["result"]
        assert (answer["success"], answer["error"]) == (False, "task_not_found")
        error = (await plain.rpc("tools/cancel", {}))["error"]
        assert error["code"] == -32602
        assert error["data"] == {
            "error_type": "invalid_params",
            "details": {"method": "tools/cancel", "parameters": ["taskId"]},
        }


async def wait_for_started_job(product: Product) -> UUID:
    """Wait for the job that a call has started."""
    from knowledge.model import JobFilter

    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            for status in (JobStatus.QUEUED, JobStatus.PROCESSING):
                page = await product.engine.jobs(JobFilter(status=status))
                if page.items:
                    return page.items[0].uid
            await asyncio.sleep(0)


@pytest.mark.requirement("000.cancel.disconnect")
@pytest.mark.parametrize("way", ["modern", "legacy", "plain", "websocket"])
async def test_a_client_that_disconnects_cancels_its_synchronous_add(
    way: str, product: Product, files_folder: Path
) -> None:
    arguments = {"file_path": str(write_long_text(files_folder)), "async": False}
    params = {"name": "knowledge-add", "arguments": arguments}
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http:
        there = PlainTransport(http)
        await clear_knowledge_base(there)

        async def add() -> None:
            if way in ("modern", "legacy"):
                async with open_sdk_transport(f"{product.url}/mcp", way) as client:
                    await client.client.call_tool("knowledge-add", arguments)
            elif way == "plain":
                await there.rpc("tools/call", params)
            else:
                async with websockets.connect(f"{product.url.replace('http', 'ws', 1)}/mcp") as connection:
                    await WebSocketTransport(connection).rpc("tools/call", params)

        task = asyncio.create_task(add())
        job = await wait_for_started_job(product)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await product.engine.wait(job, WAIT_SECONDS)).status is JobStatus.CANCELLED
        await check_nothing_left(there, product)


@pytest.mark.requirement("000.cancel.disconnect")
async def test_the_end_of_stdin_cancels_a_synchronous_add(files_folder: Path, tmp_path: Path) -> None:
    given = {"KNOWLEDGE_FILES": str(files_folder), "KNOWLEDGE_TOOLSETS": "knowledge,kb", "KNOWLEDGE_EMBEDDING": "none"}
    process = StdioTransport(tmp_path, **given)
    params = {"name": "knowledge-add", "arguments": {"file_path": str(write_long_text(files_folder)), "async": False}}
    process.write(json.dumps({"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params}))
    async with asyncio.timeout(START_SECONDS):
        while not (await process.call("kb_jobs"))["jobs"]:
            pass
    await asyncio.to_thread(process.close)
    again = StdioTransport(tmp_path, **given)
    [job] = (await again.call("kb_jobs"))["jobs"]
    await asyncio.to_thread(again.close)
    assert job["status"] == "cancelled"
    assert not [path for path in (tmp_path / "files").rglob("*") if path.is_file()]


@pytest.mark.requirement("000.cancel.request_notification")
async def test_a_cancelled_request_over_stdio_cancels_its_synchronous_add(
    process: StdioTransport, product: Product, files_folder: Path
) -> None:
    await clear_knowledge_base(process)
    arguments = {"file_path": str(write_long_text(files_folder)), "async": False}
    call = {"name": "knowledge-add", "arguments": arguments, "_meta": {"progressToken": "cancelled"}}
    process.write(json.dumps({"jsonrpc": "2.0", "id": "cancelled", "method": "tools/call", "params": call}))
    async with asyncio.timeout(WAIT_SECONDS):
        while not any(item["params"]["progressToken"] == "cancelled" for item in process.notifications):
            await process.rpc("ping")
    await process.notify("notifications/cancelled", {"requestId": "cancelled", "reason": "enough"})
    await check_nothing_left(process, product)
    await process.rpc("ping")
    assert process.list_unexpected() == []


@pytest.mark.requirement("000.cancel.request_notification")
async def test_a_cancelled_request_cancels_its_synchronous_add(product: Product, files_folder: Path) -> None:
    async with (
        httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS) as http,
        websockets.connect(f"{product.url.replace('http', 'ws', 1)}/mcp") as connection,
    ):
        await clear_knowledge_base(PlainTransport(http))
        socket = WebSocketTransport(connection)
        arguments = {"file_path": str(write_long_text(files_folder)), "async": False}
        await socket.send("tools/call", {"name": "knowledge-add", "arguments": arguments}, request_id=7)
        job = await wait_for_started_job(product)
        await socket.send("notifications/cancelled", {"requestId": 7, "reason": "enough"})
        assert (await product.engine.wait(job, WAIT_SECONDS)).status is JobStatus.CANCELLED
        assert (await socket.rpc("ping"))["result"] == {}
        await check_nothing_left(socket, product)
        assert not [message for message in socket.notifications if "id" in message]


@pytest.mark.requirement("000.cancel.request_notification")
async def test_a_cancelled_request_of_a_session_is_not_answered(product: Product, files_folder: Path) -> None:
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=product.url, timeout=WAIT_SECONDS, headers=accept) as http:
        await clear_knowledge_base(PlainTransport(http))
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        opened = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
        session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
        http.headers.update(session)
        await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        arguments = {"file_path": str(write_long_text(files_folder)), "async": False}
        params = {"name": "knowledge-add", "arguments": arguments, "_meta": {"progressToken": "mine"}}
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        async with http.stream("POST", "/mcp", json=call) as stream:
            job = await wait_for_started_job(product)
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
            assert (await http.post("/mcp", json=cancelled)).status_code == 202
            lines = [line async for line in stream.aiter_lines()]
        assert (await product.engine.wait(job, WAIT_SECONDS)).status is JobStatus.CANCELLED
        messages = [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]
        assert not [message for message in messages if "id" in message]
        await http.delete("/mcp")


@pytest.mark.requirement("000.progress.sync")
async def test_the_progress_of_a_failed_add_stays_below_the_total(product: Product, files_folder: Path) -> None:
    reports: list[float] = []

    async def record(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    path = files_folder / f"{uuid4().hex}.pdf"
    path.write_bytes(b"%PDF-1.7 not a document")
    async with open_sdk_transport(f"{product.url}/mcp", "modern") as there:
        arguments = {"file_path": str(path), "async": False}
        answer = await there.client.call_tool("knowledge-add", arguments, progress_callback=record)
    assert answer.is_error
    assert all(progress < 1 for progress in reports)
