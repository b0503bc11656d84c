"""The toolset that only the official suite sees, laid beside the product's own handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from knowledge.surfaces.mcp.server import KnowledgeServer
from tests.conformance import asking, content
from tests.conformance.content import Context

Handle = Callable[[Context, Any], Awaitable[Any]]


def install(server: KnowledgeServer) -> None:
    """Teach a server the suite's names; whatever else is asked goes to the product."""
    bus = InMemorySubscriptionBus()
    asks = asking.Asking(bus)
    schemas = {**content.SCHEMAS, **asks.schemas}
    own_schema = server.get_tool_input_schema
    server.get_tool_input_schema = lambda name: schemas.get(name) or (own_schema(name) if own_schema else None)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    _tools(server, asks, schemas)
    _resources(server)
    _prompts(server)
    _small_things(server, bus)


def _own(server: KnowledgeServer, method: str) -> Handle:
    entry = server.get_request_handler(method)
    assert entry is not None
    return cast(Handle, entry.handler)


def _tools(server: KnowledgeServer, asks: asking.Asking, schemas: dict[str, Any]) -> None:
    listing, calling = _own(server, "tools/list"), _own(server, "tools/call")

    async def list_tools(context: Context, params: Any) -> Any:
        more = [{"name": name, "description": name, "inputSchema": schema} for name, schema in schemas.items()]
        own = await listing(context, params)
        return {**own, "tools": [*own["tools"], *more]}

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> Any:
        if params.name in content.TOOLS:
            return await content.TOOLS[params.name](context)
        if params.name in asks.tools:
            return await asks.tools[params.name](context, params)
        return await calling(context, params)

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)


def _resources(server: KnowledgeServer) -> None:
    reading = _own(server, "resources/read")

    async def list_resources(_: Context, __: Any) -> Any:
        return types.ListResourcesResult(resources=content.RESOURCES)

    async def list_templates(_: Context, __: Any) -> Any:
        return types.ListResourceTemplatesResult(resource_templates=[content.TEMPLATE])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        return content.read(str(params.uri)) or await reading(context, params)

    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)


def _prompts(server: KnowledgeServer) -> None:
    getting = _own(server, "prompts/get")

    async def list_prompts(_: Context, __: Any) -> Any:
        return types.ListPromptsResult(prompts=[*content.PROMPTS, asking.PROMPT])

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name == asking.PROMPT.name:
            return asking.prompt(params)
        return content.prompt(params.name, params.arguments or {}) or await getting(context, params)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)


def _small_things(server: KnowledgeServer, bus: InMemorySubscriptionBus) -> None:
    async def complete(_: Context, __: Any) -> Any:
        return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))

    async def nothing(_: Context, __: Any) -> Any:
        return types.EmptyResult()

    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus))
