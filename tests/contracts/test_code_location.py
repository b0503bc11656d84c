"""Hits in source code have their path and lines on every surface."""

from __future__ import annotations

import httpx

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import Content, NewFile, Query
from knowledge.surfaces.cli.output.hits import format_origin
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.contracts.transports import WAIT_SECONDS, PlainTransport

SOURCE = b"import os\n\n\n# Boils the water.\ndef boil(kettle):\n    return os.sep\n"
LOCATION = "src/kettle.py:1-6"


async def test_every_search_shows_path_and_lines(local: LocalEngine, settings: Settings) -> None:
    new = NewFile(filename="kettle.py", content=Content.from_bytes(SOURCE), source_path="src/kettle.py")
    await local.wait((await local.add(new)).id, WAIT_SECONDS)
    [hit] = (await local.search(Query(text="boil"))).hits
    assert format_origin(hit).startswith(f"{LOCATION} · ")
    async with (
        serve_app(make_http_app(local, settings)) as url,
        httpx.AsyncClient(base_url=url, timeout=WAIT_SECONDS) as http,
    ):
        [found] = (await http.post("/api/v1/search", json={"query": "boil"})).json()["results"]
        assert (found["location"], found["lines"], found["chunk_metadata"]["lines"]) == (LOCATION, [1, 6], [1, 6])
        [chunk] = (await http.get(f"/api/v1/documents/{hit.document.id}")).json()["chunks"]
        assert (chunk["lines"], chunk["section"]) == ([1, 6], ["boil"])
        for toolset, tool in (("knowledge", "knowledge-search"), ("rag", "search_knowledge_base")):
            [result] = (await PlainTransport(http, f"/mcp/{toolset}").call(tool, query="boil"))["results"]
            assert result["metadata"]["location"] == LOCATION
        [result] = (await PlainTransport(http, "/mcp/kb").call("kb_search", query="boil"))["results"]
        assert result["location"] == LOCATION
        answer = await PlainTransport(http, "/mcp/manager").call("query_knowledge", query="boil")
        assert answer["sources"][0]["location"] == LOCATION
        assert "lines 1-6, boil" in answer["context"]
        note = {"note": "The kettle whistles."}
        assert (await http.post("/api/v1/jobs", json=note)).status_code < 300
        # other documents keep the shape that they had
        other = (await http.post("/api/v1/search", json={"query": "whistles"})).json()["results"]
        assert all("lines" not in result for result in other if result["kind"] == "note")
