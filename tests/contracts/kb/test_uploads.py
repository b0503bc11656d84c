"""Files from another machine: in parts, in any order, checked while they arrive, and handed on once."""

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


def encoded(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


def staged(folder: Path) -> list[Path]:
    return [path for path in (folder / "uploads").rglob("*") if path.is_file() and path.suffix == ".part"]


async def begun(agent: Agent, total_size: int, filename: str = "report.txt", **more: object) -> str:
    upload: str = (await agent.call("kb_upload_start", filename=filename, total_size=total_size, **more))["upload_id"]
    return upload


@pytest.mark.requirement("004.upload.start")
async def test_a_start_stages_nothing_at_the_engine_and_answers_an_id(agent: Agent, line: RecordingProxy) -> None:
    answer = await agent.call(
        "kb_upload_start", filename="report.pdf", total_size=5242880, tags=["insurance"], collection="documents"
    )
    assert UUID(answer["upload_id"]).version == 4
    assert line.requests == []


@pytest.mark.requirement("004.upload.chunk")
async def test_a_part_is_decoded_and_written_under_a_name_of_our_own(agent: Agent, apart: TwoProcesses) -> None:
    upload = await begun(agent, 10, filename="../../etc/passwd.txt")
    answer = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"hello"), chunk_index=0)
    assert (answer["received_bytes"], answer["total_size"]) == (5, 10)
    [part] = [path for path in staged(apart.folder) if UUID(upload).hex in path.parts]
    assert part.read_bytes() == b"hello"
    assert re.fullmatch(r"uploads/[0-9a-f]{16}/[0-9a-f]{32}/0\.part", part.relative_to(apart.folder).as_posix())


@pytest.mark.requirement("004.upload.finish")
async def test_a_finished_upload_is_one_form_with_the_tags_of_its_start(
    agent: Agent, line: RecordingProxy, apart: TwoProcesses, tmp_path: Path
) -> None:
    write_pdf(tmp_path / "report.pdf", "Premiums rise in spring", "Claims fall in autumn")
    content = (tmp_path / "report.pdf").read_bytes()
    upload = await agent.upload_parts("report.pdf", content, size=100, tags=["insurance"], collection="policies")
    assert line.requests == []
    answer = await agent.call("kb_upload_finish", upload_id=upload)
    [said] = line.requests
    assert said.line == "POST /api/v1/jobs"
    assert said.headers["content-type"].startswith("multipart/form-data")
    assert said.headers["authorization"] == f"Bearer {ENGINE_KEY}"
    assert said.field("tags") == ["collection:policies", "insurance"]
    [file] = said.form()["file"]
    assert file.get_filename() == "report.pdf"
    assert file.get_payload(decode=True) == content
    assert (answer["collection"], answer["tags"], answer["filename"]) == ("policies", ["insurance"], "report.pdf")
    document = await agent.wait_for_document(answer)
    found = await agent.call("kb_search", query="premiums in spring", collection="policies")
    assert [(hit["document_id"], hit["chunk_metadata"]["page"]) for hit in found["results"]][:1] == [(document, 1)]
    assert not [path for path in staged(apart.folder) if UUID(upload).hex in path.parts]


@pytest.mark.requirement("004.upload.sequence")
async def test_parts_come_in_any_order_and_again(agent: Agent) -> None:
    content = "\n".join(f"Line {number} of a long report." for number in range(400)).encode()
    parts = [content[start : start + 1000] for start in range(0, len(content), 1000)]
    upload = await begun(agent, len(content))
    order = [*range(len(parts)), 3, 0, 3]
    random.Random(4).shuffle(order)
    await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"wrong at first"), chunk_index=2)
    for index in order:
        await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(parts[index]), chunk_index=index)
    document = await agent.add_and_wait("kb_upload_finish", upload_id=upload)
    original = await agent.engine.original(document)
    assert b"".join([piece async for piece in original.pieces]) == content


@pytest.mark.requirement("004.upload.again")
async def test_to_finish_twice_makes_one_document(agent: Agent, line: RecordingProxy) -> None:
    upload = await agent.upload_parts("twice.txt", b"Finished twice", collection="twice")
    first = await agent.call("kb_upload_finish", upload_id=upload)
    assert await agent.call("kb_upload_finish", upload_id=upload) == first
    assert len(line.requests) == 1
    late = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"x"), chunk_index=0)
    assert late["error"] == "not_now"
    document = await agent.wait_for_document(first)
    other = await agent.upload_parts("other.txt", b"Finished twice", collection="twice")
    same = await agent.call("kb_upload_finish", upload_id=other)
    assert (same["duplicate"], same["document_id"]) == (True, document)
    assert (await agent.engine.documents(DocumentFilter(collection="twice"))).total == 1


@pytest.mark.requirement("004.upload.unknown")
@pytest.mark.parametrize("upload", ["0d6cb1a4-53ba-4f5e-8c62-8a2f0f9d7a11", "../../x", "0"])
async def test_an_upload_that_is_not_there_is_named(agent: Agent, upload: str) -> None:
    part = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"x"), chunk_index=0)
    whole = await agent.call("kb_upload_finish", upload_id=upload)
    for refused in (part, whole):
        assert refused["error"] == "upload_not_found"
        assert upload in refused["message"]
        assert "kb_upload_start" in refused["hint"]


@pytest.mark.requirement("004.upload.base64")
@pytest.mark.parametrize("data", ["aGVsbG8", "aGVs\nbG8=", "aGVsbG8=!", "aGVsbG8-", "hällo===", "====", "aGVsbG8=aGVs"])
async def test_what_is_not_base64_is_refused_and_nothing_is_kept(agent: Agent, data: str) -> None:
    upload = await begun(agent, 50)
    refused = await agent.call("kb_upload_chunk", upload_id=upload, data=data, chunk_index=7)
    assert refused["error"] == "invalid_parameter"
    assert "Part 7 is not base64" in refused["message"]
    assert (await agent.call("kb_upload_finish", upload_id=upload))["details"]["received_bytes"] == 0


@pytest.mark.requirement("004.upload.size")
async def test_more_than_was_announced_is_refused_as_it_arrives(agent: Agent) -> None:
    upload = await begun(agent, 10)
    await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"12345678"), chunk_index=0)
    refused = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"abc"), chunk_index=1)
    assert refused["error"] == "invalid_parameter"
    assert "Part 1 is larger than the 2 bytes that are left of total_size 10" in refused["message"]
    small = await agent.call("kb_upload_finish", upload_id=upload)
    assert small["error"] == "not_now"
    assert "2 bytes are missing after part 0; 8 of 10" in small["message"]
    replaced = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"1234567890"), chunk_index=0)
    assert replaced["received_bytes"] == 10


@pytest.mark.requirement("004.upload.holes")
async def test_a_hole_is_named_and_can_be_filled(agent: Agent) -> None:
    upload = await begun(agent, 9, collection="holes")
    for index, piece in ((1, b"two"), (4, b"end")):
        await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(piece), chunk_index=index)
    refused = await agent.call("kb_upload_finish", upload_id=upload)
    assert (refused["error"], refused["details"]["missing_chunks"]) == ("not_now", [0, 2, 3])
    assert "0, 2, 3" in refused["message"]
    nothing = await agent.call("kb_upload_finish", upload_id=await begun(agent, 3))
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
async def test_a_start_that_cannot_end_well_is_refused(
    agent: Agent, arguments: dict[str, object], code: str, named: str
) -> None:
    refused = await agent.call("kb_upload_start", **arguments)
    assert refused["error"] == code
    assert named in refused["message"]
    assert (await agent.call("kb_upload_chunk", upload_id="x", data="eA==", chunk_index=-1))["error"] != "internal"


@pytest.mark.requirement("004.upload.quota")
async def test_all_uploads_together_have_a_quota(apart: TwoProcesses, tmp_path: Path) -> None:
    given = {"KB_UPLOAD_TOTAL_MB": "3", "KNOWLEDGE_MAX_FILE_MB": "2"}
    with run_mcp_server(tmp_path, apart.proxy.url, **given) as mcp:
        async with open_agent(mcp.url, apart) as agent:
            assert (await agent.call("kb_upload_start", filename="a.txt", total_size=3 << 20))["error"] == "too_large"
            first = await begun(agent, 2 << 20)
            refused = await agent.call("kb_upload_start", filename="b.txt", total_size=2 << 20)
            assert (refused["error"], refused["details"]["reserved_bytes"]) == ("not_now", 2 << 20)
            assert await begun(agent, 1 << 20) != first


@pytest.mark.requirement("004.upload.abandoned")
async def test_an_abandoned_upload_is_cleaned_up(apart: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, apart.proxy.url, KB_UPLOAD_TTL_S="1") as mcp:
        async with open_agent(mcp.url, apart) as agent:
            upload = await begun(agent, 10)
            await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"12345"), chunk_index=0)
            assert len(staged(tmp_path)) == 1
            await wait_until(lambda: not staged(tmp_path))
            refused = await agent.call("kb_upload_finish", upload_id=upload)
            assert (refused["error"], upload in refused["message"]) == ("upload_not_found", True)


@pytest.mark.requirement("004.upload.restart")
async def test_an_upload_is_lost_with_its_process(apart: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, apart.proxy.url) as mcp:
        async with open_agent(mcp.url, apart) as agent:
            upload = await begun(agent, 10)
            await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"12345"), chunk_index=0)
        mcp.kill()
        assert len(staged(tmp_path)) == 1
        mcp.restart()
        async with open_agent(mcp.url, apart) as agent:
            refused = await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(b"6"), chunk_index=1)
            assert refused["error"] == "upload_not_found"
            assert "kb_upload_start" in refused["hint"]
        assert staged(tmp_path) == []


@pytest.mark.requirement("004.upload.large")
async def test_a_file_of_100_mb_goes_through_with_flat_memory(apart: TwoProcesses, tmp_path: Path) -> None:
    with run_mcp_server(tmp_path, apart.engine.url) as mcp:
        async with open_agent(mcp.url, apart) as agent:
            await agent.call("kb_upload_finish", upload_id=await agent.upload_parts("small.txt", bytes(6_000_000)))
            before = read_peak_memory(mcp.process.pid)
            total, size = 100 << 20, 2_000_000
            upload = await begun(agent, total)
            for index in range(-(-total // size)):
                piece = bytes([32 + index]) * min(size, total - index * size)
                await agent.call("kb_upload_chunk", upload_id=upload, data=encoded(piece), chunk_index=index)
            answer = await agent.call("kb_upload_finish", upload_id=upload)
            await agent.engine.cancel(answer["job_id"])
            if before is not None:
                assert (read_peak_memory(mcp.process.pid) or 0) - before < 40 << 20
