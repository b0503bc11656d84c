"""Answers of all toolsets stay within KNOWLEDGE_ANSWER_CHARS, through the official client in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import NewNote
from tests.contracts.app_server import make_app, serve_app
from tests.contracts.transports import WAIT_SECONDS, Body, SdkTransport, open_sdk_transport

LIMIT = 6000
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


def write_paragraphs(topic: str, count: int) -> str:
    return "\n\n".join(
        f"Paragraph {number} is about {topic}, kettles and patience. " + f"Step {number} of {topic} takes time. " * 12
        for number in range(count)
    )


async def add_note(engine: LocalEngine, text: str, **more: Any) -> int:
    job = await engine.add(NewNote(text=text, **more))
    ended = await engine.wait(job.id, WAIT_SECONDS)
    assert ended.document_id is not None, ended
    return ended.document_id


@asynccontextmanager
async def serve_toolset(
    engine: LocalEngine, settings: Settings, folder: Path, toolset: str, era: str, limit: int = LIMIT
) -> AsyncIterator[SdkTransport]:
    app = make_app(engine, settings.model_copy(update={"answer_chars": limit}), folder)
    async with serve_app(app) as url, open_sdk_transport(f"{url}/mcp/{toolset}", era) as client:
        yield client


async def call_within(client: SdkTransport, limit: int, tool: str, /, **arguments: Any) -> Body:
    """Call a tool and check the length of the text block that arrives."""
    answer = await client.client.call_tool(tool, arguments)
    [block] = answer.model_dump(by_alias=True, mode="json")["content"]
    assert len(block["text"]) <= limit
    return await client.call(tool, **arguments)


@ERAS
@pytest.mark.requirement("answers.budget.tools", "answers.budget.hits")
@pytest.mark.parametrize(
    ("toolset", "tool", "arguments", "text_field"),
    [
        ("knowledge", "knowledge-search", {"query": "kettles and patience", "top_k": 10}, "chunk_text"),
        ("rag", "search_knowledge_base", {"query": "kettles and patience", "match_count": 10}, "text"),
        ("kb", "kb_search", {"query": "kettles and patience", "top": 10}, "text"),
    ],
)
async def test_hits_are_cut_and_none_is_dropped(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str, toolset: str, tool: str,
    arguments: dict[str, Any], text_field: str,
) -> None:  # fmt: skip
    for number in range(10):
        await add_note(local, write_paragraphs(f"tea number {number}", 4), title=f"Tea {number}")
    async with serve_toolset(local, settings, tmp_path, toolset, era, limit=1_000_000) as client:
        whole = await client.call(tool, **arguments)
    limit = len(str(whole)) * 2 // 3
    async with serve_toolset(local, settings, tmp_path, toolset, era, limit) as client:
        fitted = await call_within(client, limit, tool, **arguments)
    assert [hit["chunk_id"] for hit in fitted["results"]] == [hit["chunk_id"] for hit in whole["results"]]
    assert len(fitted["results"]) >= 8
    cut = [hit for hit in fitted["results"] if hit.get("truncated")]
    assert cut and all(hit[text_field].endswith(("…", "...")) for hit in cut)


@ERAS
@pytest.mark.requirement("answers.budget.tools", "answers.budget.hits")
async def test_a_context_of_many_passages_keeps_every_source(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str
) -> None:
    for number in range(10):
        await add_note(local, write_paragraphs(f"tea number {number}", 4), title=f"Tea {number}")
    async with serve_toolset(local, settings, tmp_path, "manager", era, 8000) as client:
        answer = await call_within(client, 8000, "query_knowledge", query="kettles and patience", n_results=10)
    assert answer["num_results"] == answer["context"].count("collection documents; relevance") == 10
    assert "left_out" not in answer
    assert answer["context"].count("; truncated]") >= 1
    assert "…" in answer["context"]


@ERAS
@pytest.mark.requirement("answers.budget.parts")
async def test_a_long_document_comes_in_parts_that_hold_every_passage(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str
) -> None:
    note = await add_note(local, write_paragraphs("tea", 60), metadata={"abstract": "a" * 9000})
    whole = [chunk.text for chunk in await local.chunks(note)]
    read: list[str] = []
    calls, offset = 0, 0
    async with serve_toolset(local, settings, tmp_path, "kb", era) as client:
        while True:
            part = await call_within(client, LIMIT, "kb_get", document_id=note, chunk_offset=offset)
            calls += 1
            assert (part["total_chunks"], part["chunk_offset"]) == (len(whole), offset)
            assert [chunk["index"] for chunk in part["chunks"]] == list(range(offset, offset + len(part["chunks"])))
            read += [chunk["text"] for chunk in part["chunks"]]
            if "next_offset" not in part:
                break
            offset = part["next_offset"]
            assert f"chunk_offset={offset}" in part["hint"]
        two = await client.call("kb_get", document_id=note, chunk_offset=3, chunk_limit=2)
        beyond = await client.call("kb_get", document_id=note, chunk_offset=10_000)
    assert read == whole and calls > 3
    assert [chunk["index"] for chunk in two["chunks"]] == [3, 4] and two["next_offset"] == 5
    assert beyond["chunks"] == [] and "next_offset" not in beyond


@ERAS
@pytest.mark.requirement("answers.budget.listing")
async def test_a_listing_that_does_not_fit_is_continued_by_offset(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str
) -> None:
    for number in range(30):
        await add_note(local, f"Note {number}", title=f"Note {number:02}", metadata={"about": "m" * 150})
    seen: list[str] = []
    offset: int | None = 0
    async with serve_toolset(local, settings, tmp_path, "knowledge", era) as client:
        while offset is not None:
            page = await call_within(client, LIMIT, "knowledge-show", limit=1000, offset=offset, sort_order="asc")
            seen += [document["title"] for document in page["documents"]]
            assert len(page["documents"]) + page.get("documents_left_out", 0) + offset == 30
            offset = page.get("next_offset")
    assert sorted(seen) == [f"Note {number:02}" for number in range(30)]


@ERAS
@pytest.mark.requirement("answers.budget.tools")
async def test_pages_of_layers_are_cut_to_the_same_budget(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str
) -> None:
    async with serve_toolset(local, settings, tmp_path, "sage", era) as client:
        answer = await call_within(client, LIMIT, "sage_get_knowledge", layer="all", timeout_ms=60_000)
        assert answer["truncated"] is True and answer["content"].endswith("…")
        context = await call_within(client, LIMIT, "sage_get_context", task_type="coding", token_budget=100_000)
        assert "truncated" not in context, "whole sections are left out instead"
        assert context["sections"] and context["sections_left_out"] > 0


@ERAS
@pytest.mark.requirement("answers.budget.relevance")
async def test_a_query_leaves_out_irrelevant_passages_but_the_best_of_each_collection(
    local: LocalEngine, settings: Settings, tmp_path: Path, era: str
) -> None:
    for number in range(3):
        await add_note(local, f"Number {number}: the tax office opens at nine in the morning.", collection="taxes")
    await add_note(local, "Sencha is a green tea from Japan.", collection="teas")
    query = {"query": "Sencha is a green tea from Japan.", "n_results": 5}
    strict = settings.model_copy(update={"min_relevance": 0.99})
    async with serve_toolset(local, strict, tmp_path, "manager", era) as client:
        answer = await client.call("query_knowledge", **query)
    assert answer["context"].count("collection taxes;") == answer["context"].count("collection teas;") == 1
    assert (answer["num_results"], answer["left_out"]) == (2, 2)
    assert "2 passages with a relevance below 0.99 were left out" in answer["notes"]
    lenient = settings.model_copy(update={"min_relevance": 0.0})
    async with serve_toolset(local, lenient, tmp_path, "manager", era) as client:
        everything = await client.call("query_knowledge", **query)
    assert everything["num_results"] == 4 and "left_out" not in everything
