"""Counts the files of this package that a warm search executes over REST and MCP."""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import httpx
import pytest

from knowledge import app as knowledge_app
from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.model import NewNote
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.open_engine import open_engine_in_background
from knowledge.surfaces.rest import search as search_route
from knowledge.testing import make_test_engine

PACKAGE = Path(__file__).parents[1] / "src" / "knowledge"
MAX_REST_FILES, MAX_MCP_FILES, MAX_FRAMES = 30, 35, 4
ROUTE, ENGINE_SEARCH = search_route.search.__code__, LocalEngine.search.__code__
IN_REQUEST: ContextVar[bool] = ContextVar("in_request", default=False)


@dataclass
class Trace:
    """Records the code of one request, in its tasks on the event loop and in the threads of the engine."""

    recording: bool = False
    files: set[str] = field(default_factory=set)
    frames_between: list[str] | None = None
    """Frames of this package between the route function and the engine's search."""

    def record(self, frame: FrameType, event: str, _: object) -> None:
        if not self.recording or event != "call" or not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return
        if IN_REQUEST.get() or threading.current_thread().name.startswith("engine"):
            self.files.add(str(Path(frame.f_code.co_filename).relative_to(PACKAGE)))
            if frame.f_code is ENGINE_SEARCH and self.frames_between is None:
                self.frames_between = find_frames_between(frame)

    async def run(self, call: Callable[[], Awaitable[object]]) -> tuple[set[str], list[str] | None]:
        """Make a call and return the files that ran and the frames between the route and the engine's search."""
        self.files, self.frames_between = set(), None
        token = IN_REQUEST.set(True)
        self.recording = True
        try:
            await call()
        finally:
            self.recording = False
            IN_REQUEST.reset(token)
        return self.files, self.frames_between


@pytest.fixture
def trace() -> Iterator[Trace]:
    found = Trace()
    threading.setprofile(found.record)  # for threads that start later, such as those of the engine
    sys.setprofile(found.record)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)


def find_frames_between(frame: FrameType) -> list[str] | None:
    """Return the frames of this package above the engine's search, up to the route function; None without it."""
    found: list[str] = []
    above = frame.f_back
    while above is not None and above.f_code is not ROUTE:
        path = Path(above.f_code.co_filename)
        found += [f"{path.name}:{above.f_code.co_name}"] if path.is_relative_to(PACKAGE) else []
        above = above.f_back
    return found if above is not None else None


async def test_a_search_runs_through_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trace: Trace) -> None:
    monkeypatch.setattr(knowledge_app, "open_engine", make_test_engine)
    settings = Settings(data=tmp_path / "data", workers=1)
    async with open_engine_in_background(settings) as (engine, opened):
        await opened
        job = await engine.add(NewNote(text="The harbour master keeps a ledger of every ship."))
        await engine.wait(job.id, 60)
        app = make_http_app(engine, settings, opened.done)
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as http:

            async def search_by_rest() -> None:
                answer = await http.post("/api/v1/search", json={"query": "harbour ledger"})
                assert answer.json()["results"], answer.text

            async def search_by_mcp() -> None:
                body = {
                    "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                    "params": {"name": "knowledge-search", "arguments": {"query": "harbour ledger"}},
                }  # fmt: skip
                headers = {"accept": "application/json, text/event-stream"}
                answer = await http.post("/mcp", json=body, headers=headers)
                assert answer.status_code == 200 and "harbour" in answer.text, answer.text

            for _ in range(2):
                await search_by_rest()
                await search_by_mcp()
            (rest, between), (mcp, _) = await trace.run(search_by_rest), await trace.run(search_by_mcp)
    assert between is not None, "the route function and the engine's search are on one stack"
    offenders = {
        "frames": between if len(between) > MAX_FRAMES else [],
        "REST": sorted(rest) if len(rest) > MAX_REST_FILES else [],
        "MCP": sorted(mcp) if len(mcp) > MAX_MCP_FILES else [],
    }
    assert offenders == {"frames": [], "REST": [], "MCP": []}, (len(rest), len(mcp))
