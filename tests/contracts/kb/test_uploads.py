"""Chunked uploads: order, validation, quotas, expiry and restarts."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path
from uuid import UUID

import pytest

from knowledge.model import DocumentFilter
from tests.contracts.kb.conftest import Agent, TwoProcesses, open_agent, read_peak_memory, wait_until
from tests.contracts.kb.processes import ENGINE_KEY, RecordingProxy, run_mcp_server
from tests.contracts.knowledge.samples import write_pdf


def encode(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


def list_staged_parts(folder: Path) -> list[Path]:
    return [path for path in (folder / "uploads").rglob("*") if path.is_file() and path.suffix == ".part"]


async def start_upload(agent: Agent, total_size: int, filename: str = "report.txt", **more: object) -> str:
    upload: str = (await agent.call("kb_upload_start", filename=filename, total_size=total_size, **more))["upload_id"]
    return upload


@pytest.mark.requirement("004.upload.start")
async def test_a_start_returns_an_id_and_sends_nothing_to_the_engine(agent: Agent, proxy: RecordingProxy) -> None:
    answer = await agent.call(
        "kb_upload_start", filename="report.pdf", total_size=5242880, tags=["insurance"], collection="documents"
    )
    assert UUID(answer["upload_id"]).version == 4
    assert proxy.requests == []


@pytest.mark.requirement("004.upload.chunk")
async def test_a_part_is_decoded_and_stored_under_a_generated_name(agent: Agent, processes: TwoProcesses) -> None:
    upload = await start_upload(agent, 10, filename="../../etc/passwd.txt")
    answer = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"hello"), chunk_index=0)
    assert (answer["received_bytes"], answer["total_size"]) == (5, 10)
    [part] = [path for path in list_staged_parts(processes.folder) if UUID(upload).hex in path.parts]
    assert part.read_bytes() == b"hello"
    assert re.fullmatch(r"uploads/[0-9a-f]{16}/[0-9a-f]{32}/0\.part", part.relative_to(processes.folder).as_posix())


@pytest.mark.requirement("004.upload.finish")
async def test_a_finished_upload_is_one_form_with_the_tags_of_its_start(
    agent: Agent, proxy: RecordingProxy, processes: TwoProcesses, tmp_path: Path
) -> None:
    write_pdf(tmp_path / "report.pdf", "Premiums rise in spring", "Claims fall in autumn")
    content = (tmp_path / "report.pdf").read_bytes()
    upload = await agent.upload_parts("report.pdf", content, size=100, tags=["insurance"], collection="policies")
    assert proxy.requests == []
    answer = await agent.call("kb_upload_finish", upload_id=upload)
    [request] = proxy.requests
    assert request.line == "POST /api/v1/jobs"
    assert request.headers["content-type"].startswith("multipart/form-data")
    assert request.headers["authorization"] == f"Bearer {ENGINE_KEY}"
    assert request.field("tags") == ["collection:policies", "insurance"]
    [file] = request.form()["file"]
    assert file.get_filename() == "report.pdf"
    assert file.get_payload(decode=True) == content
    assert (answer["collection"], answer["tags"], answer["filename"]) == ("policies", ["insurance"], "report.pdf")
    document = await agent.wait_for_document(answer)
    found = await agent.call("kb_search", query="premiums in spring", collection="policies")
    assert [(hit["document_id"], hit["chunk_metadata"]["page"]) for hit in found["results"]][:1] == [(document, 1)]
    assert not [path for path in list_staged_parts(processes.folder) if UUID(upload).hex in path.parts]


@pytest.mark.requirement("004.upload.sequence")
async def test_parts_may_come_in_any_order_and_be_repeated(agent: Agent) -> None:
    content = "\n".join(f"Line {number} of a long report." for number in range(400)).encode()
    parts = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    upload = await start_upload(agent, len(content))
    order = [*range(len(parts)), 3, 0, 3]
    random.Random(4).shuffle(order)
    await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"wrong at first"), chunk_index=2)
    for index in order:
        await agent.call("kb_upload_chunk", upload_id=upload, data=encode(parts[index]), chunk_index=index)
    document = await agent.add_and_wait("kb_upload_finish", upload_id=upload)
    original = await agent.engine.original(document)
    assert b"".join([piece async for piece in original.pieces]) == content


@pytest.mark.requirement("004.upload.finish_twice")
async def test_finishing_twice_creates_one_document(agent: Agent, proxy: RecordingProxy) -> None:
    upload = await agent.upload_parts("twice.txt", b"Finished twice", collection="twice")
    first = await agent.call("kb_upload_finish", upload_id=upload)
    assert await agent.call("kb_upload_finish", upload_id=upload) == first
    assert len(proxy.requests) == 1
    late = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"x"), chunk_index=0)
    assert late["error"] == "not_now"
    document = await agent.wait_for_document(first)
    other = await agent.upload_parts("other.txt", b"Finished twice", collection="twice")
    same = await agent.call("kb_upload_finish", upload_id=other)
    assert (same["duplicate"], same["document_id"]) == (True, document)
    assert (await agent.engine.documents(DocumentFilter(collection="twice"))).total == 1


@pytest.mark.requirement("004.upload.unknown")
@pytest.mark.parametrize("upload", ["0d6cb1a4-53ba-4f5e-8c62-8a2f0f9d7a11", "../../x", "0"])
async def test_an_unknown_upload_is_named_in_the_error(agent: Agent, upload: str) -> None:
    part = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"x"), chunk_index=0)
    whole = await agent.call("kb_upload_finish", upload_id=upload)
    for refused in (part, whole):
        assert refused["error"] == "upload_not_found"
        assert upload in refused["message"]
        assert "kb_upload_start" in refused["hint"]


@pytest.mark.requirement("004.upload.base64")
@pytest.mark.parametrize("data", ["aGVsbG8", "aGVs\nbG8=", "aGVsbG8=!", "aGVsbG8-", "hällo===", "====", "aGVsbG8=aGVs"])
async def test_invalid_base64_is_refused_and_not_stored(agent: Agent, data: str) -> None:
    upload = await start_upload(agent, 50)
    refused = await agent.call("kb_upload_chunk", upload_id=upload, data=data, chunk_index=7)
    assert refused["error"] == "invalid_parameter"
    assert "Part 7 is not valid base64" in refused["message"]
    assert (await agent.call("kb_upload_finish", upload_id=upload))["details"]["received_bytes"] == 0


@pytest.mark.requirement("004.upload.size")
async def test_a_part_beyond_the_total_size_is_refused(agent: Agent) -> None:
    upload = await start_upload(agent, 10)
    await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"12345678"), chunk_index=0)
    refused = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"abc"), chunk_index=1)
    assert refused["error"] == "invalid_parameter"
    assert "Part 1 is larger than the remaining 2 bytes of total_size 10" in refused["message"]
    small = await agent.call("kb_upload_finish", upload_id=upload)
    assert small["error"] == "not_now"
    assert "2 bytes are missing after part 0; 8 of 10" in small["message"]
    replaced = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"1234567890"), chunk_index=0)
    assert replaced["received_bytes"] == 10


@pytest.mark.requirement("004.upload.missing_parts")
async def test_missing_parts_are_named_and_can_be_sent_later(agent: Agent) -> None:
    upload = await start_upload(agent, 9, collection="holes")
    for index, piece in ((1, b"two"), (4, b"end")):
        await agent.call("kb_upload_chunk", upload_id=upload, data=encode(piece), chunk_index=index)
    refused = await agent.call("kb_upload_finish", upload_id=upload)
    assert (refused["error"], refused["details"]["missing_chunks"]) == ("not_now", [0, 2, 3])
    assert "0, 2, 3" in refused["message"]
    nothing = await agent.call("kb_upload_finish", upload_id=await start_upload(agent, 3))
    assert nothing["details"]["missing_chunks"] == [0]


@pytest.mark.requirement("004.upload.parameters")
@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ({"filename": "a.txt"}, "missing_parameter", "total_size"),
        ({"filename": "a.txt", "total_size": 0}, "invalid_parameter", "total_size"),
        ({"filename": "a.txt", "total_size": "5"}, "invalid_parameter", "total_size"),
        ({"filename": "/", "total_size": 5}, "invalid_parameter", "file name"),
        ({"filename": "a.exe", "total_size": 5}, "unsupported_format", ".exe"),
        ({"filename": "a.txt", "total_size": 2**40}, "too_large", str(100 << 20)),
    ],
)
async def test_invalid_arguments_of_a_start_are_refused(
    agent: Agent, arguments: dict[str, object], code: str, named: str
) -> None:
    refused = await agent.call("kb_upload_start", **arguments)
    assert refused["error"] == code
    assert named in refused["message"]
    assert (await agent.call("kb_upload_chunk", upload_id="x", data="eA==", chunk_index=-1))["error"] != "internal"


@pytest.mark.requirement("004.upload.quota")
async def test_all_uploads_together_have_a_quota(processes: TwoProcesses, tmp_path: Path) -> None:
    given = {"KB_UPLOAD_TOTAL_MB": "3", "KNOWLEDGE_MAX_FILE_MB": "2"}
    with run_mcp_server(tmp_path, processes.proxy.url, **given) as mcp:
        async with open_agent(mcp.url, processes) as agent:
            assert (await agent.call("kb_upload_start", filename="a.txt", total_size=3 << 20))["error"] == "too_large"
            first = await start_upload(agent, 2 << 20)
            refused = await agent.call("kb_upload_start", filename="b.txt", total_size=2 << 20)
            assert (refused["error"], refused["details"]["reserved_bytes"]) == ("not_now", 2 << 20)
            assert await start_upload(agent, 1 << 20) != first


@pytest.mark.requirement("004.upload.abandoned")
async def test_an_abandoned_upload_is_cleaned_up(processes: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, processes.proxy.url, KB_UPLOAD_TTL_S="1") as mcp:
        async with open_agent(mcp.url, processes) as agent:
            upload = await start_upload(agent, 10)
            await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"12345"), chunk_index=0)
            assert len(list_staged_parts(tmp_path)) == 1
            await wait_until(lambda: not list_staged_parts(tmp_path))
            refused = await agent.call("kb_upload_finish", upload_id=upload)
            assert (refused["error"], upload in refused["message"]) == ("upload_not_found", True)


@pytest.mark.requirement("004.upload.restart")
async def test_an_upload_is_lost_with_its_process(processes: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, processes.proxy.url) as mcp:
        async with open_agent(mcp.url, processes) as agent:
            upload = await start_upload(agent, 10)
            await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"12345"), chunk_index=0)
        mcp.kill()
        assert len(list_staged_parts(tmp_path)) == 1
        mcp.restart()
        async with open_agent(mcp.url, processes) as agent:
            refused = await agent.call("kb_upload_chunk", upload_id=upload, data=encode(b"6"), chunk_index=1)
            assert refused["error"] == "upload_not_found"
            assert "kb_upload_start" in refused["hint"]
        assert list_staged_parts(tmp_path) == []


@pytest.mark.requirement("004.upload.large")
async def test_a_file_of_100_mb_is_uploaded_with_constant_memory(processes: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, processes.engine.url) as mcp:
        async with open_agent(mcp.url, processes) as agent:
            await agent.call("kb_upload_finish", upload_id=await agent.upload_parts("small.txt", bytes(6_000_000)))
            before = read_peak_memory(mcp.process.pid)
            total, size = 100 << 20, 2_000_000
            upload = await start_upload(agent, total)
            for index in range(-(-total // size)):
                piece = bytes([32 + index]) * min(size, total - index * size)
                await agent.call("kb_upload_chunk", upload_id=upload, data=encode(piece), chunk_index=index)
            answer = await agent.call("kb_upload_finish", upload_id=upload)
            await agent.engine.cancel(answer["job_id"])
            if before is not None:
                assert (read_peak_memory(mcp.process.pid) or 0) - before < 40 << 20
