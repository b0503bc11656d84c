"""Scripted agents, one for each toolset: how it searches, reads on beyond a hit, and adds a note."""

from __future__ import annotations

import asyncio
import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mcp import Client

PASSAGE_SEPARATOR = "\n\n---\n\n"
"""Between the passages of `query_knowledge` if the answer names no boundary."""
NEXT_PART = re.compile(r"^Next part: (\S+)$", re.MULTILINE)
MAX_PARTS = 12
"""An agent gives up reading one document after so many calls."""
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Passage:
    text: str
    document: str | int | None = None
    resource: str | None = None
    """The link to the text around the passage, if the hit has one."""
    first_index: int = 0


class Agent(ABC):
    """Calls the tools of one toolset and counts calls and the characters that a model would read."""

    toolset: ClassVar[str]
    can_add: ClassVar[bool] = True
    has_snippets: ClassVar[bool] = False
    """Hits are too short to name their subject, so the best one is opened in any case."""

    def __init__(self, client: Client, tools: dict[str, set[str]], notes: Path) -> None:
        self._client = client
        self.tools = tools
        """Parameters by tool."""
        self.notes = notes
        """A folder whose files the server may open."""
        self.calls = self.characters = 0

    async def wait_until_ready(self) -> None:
        """Wait until the search of this toolset has indexed the documents."""
        return

    @abstractmethod
    async def search(self, question: str) -> list[Passage]: ...

    async def read_on(self, passage: Passage) -> AsyncIterator[str]:
        """Yield the text around and after a passage in parts; nothing if the hit has no link."""
        link = passage.resource
        for _ in range(MAX_PARTS):
            if link is None:
                return
            text = await self.read_resource(link)
            yield text
            following = NEXT_PART.search(text)
            link = following.group(1) if following else None

    async def add(self, text: str, name: str, /) -> None:
        raise NotImplementedError(f"The toolset {self.toolset} has no tool that adds a document")

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.call_tool(tool, arguments)
        text = "".join(part.text for part in answer.content if part.type == "text")
        self.calls += 1
        self.characters += len(text)
        body: dict[str, Any] = answer.structured_content or json.loads(text)
        if answer.is_error:
            raise RuntimeError(f"{tool} failed: {text[:500]}")
        return body

    async def read_resource(self, uri: str) -> str:
        answer = await self._client.read_resource(uri, cache_mode="bypass")
        text = "".join(getattr(part, "text", "") for part in answer.contents)
        self.calls += 1
        self.characters += len(text)
        return text

    def write_note(self, text: str, name: str) -> str:
        path = self.notes / f"{name}.md"
        path.write_text(text, "utf-8")
        return str(path)


class KnowledgeAgent(Agent):
    toolset = "knowledge"

    async def search(self, question: str) -> list[Passage]:
        found = await self.call("knowledge-search", {"query": question})
        return [Passage(hit["chunk_text"], hit["document_id"], hit.get("resource")) for hit in found["results"]]

    async def add(self, text: str, name: str, /) -> None:
        await self.call("knowledge-add", {"file_path": self.write_note(text, name), "async": False})


class ManagerAgent(Agent):
    toolset = "manager"
    can_add = False

    async def search(self, question: str) -> list[Passage]:
        found = await self.call("query_knowledge", {"query": question})
        boundary = found.get("boundary")
        separator = f"\n\n--- {boundary} ---\n\n" if boundary else PASSAGE_SEPARATOR
        texts = found["context"].split(separator) if found["context"] else []
        links = [source.get("resource") for source in found.get("sources", [])] or [None] * len(texts)
        return [Passage(text, resource=link) for text, link in zip(texts, links, strict=True)]


class RagAgent(Agent):
    toolset = "rag"

    async def search(self, question: str) -> list[Passage]:
        found = await self.call("search_knowledge_base", {"query": question})
        return [Passage(hit["text"], hit["document_id"], hit.get("resource")) for hit in found["results"]]

    async def add(self, text: str, name: str, /) -> None:
        await self.call("manage_document", {"action": "create", "file_path": self.write_note(text, name)})


class KbAgent(Agent):
    """Reads on with `kb_get`, because many clients offer their model the tools alone."""

    toolset = "kb"

    async def search(self, question: str) -> list[Passage]:
        found = await self.call("kb_search", {"query": question})
        return [
            Passage(hit["text"], hit["document_id"], hit.get("resource"), hit["chunk_indexes"][0])
            for hit in found["results"]
        ]

    async def read_on(self, passage: Passage) -> AsyncIterator[str]:
        offset: int | None = passage.first_index if "chunk_offset" in self.tools["kb_get"] else None
        for _ in range(MAX_PARTS):
            if offset is None:
                return
            part = await self.call(
                "kb_get", {"document_id": passage.document, "chunk_offset": offset, "chunk_limit": 8}
            )
            yield "\n\n".join(chunk["text"] for chunk in part["chunks"])
            offset = part.get("next_offset")

    async def add(self, text: str, _: str, /) -> None:
        """Add a note and wait for its job; however often it asks, waiting counts as one call."""
        job = (await self.call("kb_addnote", {"text": text}))["job_id"]
        calls, characters = self.calls, self.characters
        while True:
            self.calls, self.characters = calls, characters
            listed = (await self.call("kb_jobs", {}))["jobs"]
            if next(found for found in listed if found["id"] == job)["status"] not in ("queued", "processing"):
                return
            await asyncio.sleep(POLL_SECONDS)


class SageAgent(Agent):
    toolset = "sage"
    can_add = False
    has_snippets = True

    async def wait_until_ready(self) -> None:
        while True:
            if (await self.call("sage_search", {"query": "lighthouse"}))["mode"] == "hybrid":
                return
            await asyncio.sleep(POLL_SECONDS)

    async def search(self, question: str) -> list[Passage]:
        found = await self.call("sage_search", {"query": question})
        return [Passage(f"{hit['title']}\n{hit['snippet']}", hit["path"]) for hit in found["results"]]

    async def read_on(self, passage: Passage) -> AsyncIterator[str]:
        layer, _, topic = str(passage.document).removeprefix("content/").partition("/")
        page = await self.call("sage_get_knowledge", {"layer": layer, "topic": topic})
        yield page["content"]


AGENTS: tuple[type[Agent], ...] = (KnowledgeAgent, ManagerAgent, RagAgent, KbAgent, SageAgent)
