"""Routes for agents: who has connected over MCP, and trying the tools that they see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import APIRouter, Path
from pydantic import Field, JsonValue
from starlette.requests import Request

from knowledge.model import Json
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.rate_limits import address_of
from knowledge.surfaces.http.tool_runner import ToolOutcome, unknown_tool_error
from knowledge.surfaces.rest.framework.dependencies import AppContext, CallerEngine
from knowledge.surfaces.rest.framework.middleware import ANSWER_SCOPE_KEY, LimitHeadersResponse
from knowledge.surfaces.rest.framework.openapi import ResponseModel, errors
from knowledge.wire import Body, DoneShape
from knowledge.wire.insight import AgentsShape, RefusalsBody, SightingBody

router = APIRouter(tags=["agents"])

ToolName = Annotated[str, Path(description="The name of a tool.", max_length=200)]


@router.get("/agents")
async def agents(request: Request, engine: CallerEngine) -> ResponseModel[AgentsShape]:
    """List the caller's agents that used MCP in the last seven days, and attempts that were refused.

    An account sees the refused attempts from its own network address, without client, address and path.
    """
    seen, refused = await engine.agents.list_seen(), await engine.agents.list_refused(address_of(request.scope))
    return AgentsShape(tuple(seen), tuple(refused))


@router.post("/agents", responses=errors(415))
async def record_agent(body: SightingBody, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Report an agent of the caller, for a process that serves MCP in front of this engine."""
    await engine.agents.record(body.to_sighting())
    return {"status": "done"}


@router.post("/admin/agents/refused", responses=errors(415))
async def record_refusals(body: RefusalsBody, engine: CallerEngine) -> ResponseModel[DoneShape]:
    """Report refused attempts, for a process that serves MCP in front of this engine. Operator only."""
    await engine.agents.record_refusals([each.to_refusal() for each in body.refused])
    return {"status": "done"}


@dataclass(frozen=True)
class ToolShape:
    """A tool as agents see it."""

    name: str
    title: str
    description: str
    input_schema: Json
    read_only: bool
    destructive: bool


@dataclass(frozen=True)
class ToolsetShape:
    """A toolset with the path of its MCP endpoint; `default` ones are also at `/mcp`."""

    name: str
    path: str
    default: bool
    instructions: str
    tools: tuple[ToolShape, ...]


@dataclass(frozen=True)
class ToolsetsShape:
    toolsets: tuple[ToolsetShape, ...]


class ToolCallBody(Body):
    arguments: dict[str, JsonValue] = Field(default_factory=dict, description="The arguments, by name.")


@router.get("/toolsets")
async def toolsets(context: AppContext) -> ResponseModel[ToolsetsShape]:
    """List the toolsets that this server offers over MCP, with their tools and input schemas."""
    found = context.tools.list_toolsets() if context.tools is not None else ()
    return ToolsetsShape(
        tuple(
            ToolsetShape(
                name=toolset.name,
                path=f"/mcp/{toolset.name}",
                default=is_default,
                instructions=toolset.instructions,
                tools=tuple(
                    ToolShape(tool.name, tool.title, tool.description, tool.schema, tool.read_only, tool.destructive)
                    for tool in toolset.tools
                ),
            )
            for toolset, is_default in found
        )
    )


@router.post("/tools/{name}", responses=errors(404, 415))
async def call_tool(
    name: ToolName, body: ToolCallBody, request: Request, context: AppContext, engine: CallerEngine
) -> ResponseModel[ToolOutcome]:
    """Call a tool as the caller and return the JSON that an agent would get; a refusal has `is_error`.

    It counts against the limits of MCP.
    """
    if context.tools is None:
        raise unknown_tool_error(name, [])
    tool, caller = context.tools.find(name), caller_of(request.scope)
    answer = cast(LimitHeadersResponse, request.scope[ANSWER_SCOPE_KEY])
    answer.allowance = await context.tools.charge(tool, caller)
    base_url = str(request.base_url).rstrip("/")
    return await context.tools.run(tool, engine, caller, base_url, body.arguments)
