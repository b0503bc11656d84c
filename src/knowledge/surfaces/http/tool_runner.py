"""Runs a tool of a toolset for a caller of REST, as an agent would call it over MCP."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError, NotFound
from knowledge.model import Caller, CallerKind, Json, JsonValue
from knowledge.surfaces.http.rate_limits import Allowance, RateLimits, allowance_key_of
from knowledge.surfaces.mcp.toolset_selection import ToolsetSelection
from knowledge.toolsets.base import CallLimits, Refusal, Registry, Tool, ToolCall, Toolset, ToolsetView
from knowledge.toolsets.values import ServerLinks


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The answer of a tool, as an agent gets it."""

    tool: str
    is_error: bool
    result: Json
    took_ms: float


@dataclass(frozen=True, slots=True)
class ToolRunner:
    """The tools that this server offers over MCP."""

    registry: Registry
    selection: ToolsetSelection
    limits: CallLimits
    account_limits: CallLimits
    services: Mapping[type[object], object]
    links: ServerLinks
    rates: RateLimits | None = None

    def list_toolsets(self) -> Iterator[tuple[Toolset, bool]]:
        """Yield the allowed toolsets, each with whether `/mcp` shows it."""
        for toolset in self.registry.select_toolsets(ToolsetView(self.selection.allowed)):
            yield toolset, toolset.name in self.selection.default

    def find(self, name: str) -> Tool:
        tool = self.registry.find_tool(name, ToolsetView(self.selection.allowed))
        if tool is None:
            known = [each.name for each in self.registry.list_tools(ToolsetView(self.selection.allowed))]
            raise unknown_tool_error(name, known)
        return tool

    async def charge(self, tool: Tool, caller: Caller) -> Allowance | None:
        """Count the call against the limit that it has over MCP."""
        if self.rates is None:
            return None
        return await self.rates.acquire(self.rates.mcp, allowance_key_of(caller), tool.rate)

    async def run(
        self, tool: Tool, engine: Engine, caller: Caller, base_url: str, arguments: Mapping[str, JsonValue]
    ) -> ToolOutcome:
        """Call a tool; `base_url` is the address of this server for links, unless the operator set one."""
        limits = self.account_limits if caller.kind is CallerKind.ACCOUNT else self.limits
        links = self.links if self.links.base_url else replace(self.links, base_url=base_url)
        call = ToolCall(engine=engine, caller=caller, limits=limits, links=links, services=self.services)
        began = time.perf_counter()
        answer = await tool.run(call, arguments)
        took = round(1000 * (time.perf_counter() - began), 1)
        is_error = isinstance(answer, Refusal)
        return ToolOutcome(tool.name, is_error, answer.body if isinstance(answer, Refusal) else answer, took)


def unknown_tool_error(name: str, known: list[str]) -> KnowledgeError:
    near = difflib.get_close_matches(name, known, 1)
    meant = f"Did you mean '{near[0]}'? " if near else ""
    return NotFound(
        f"There is no tool '{name[:80]}' here", hint=f"{meant}GET /api/v1/toolsets lists the tools.", tool=name[:80]
    )
