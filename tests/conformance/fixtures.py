"""Adds the conformance suite's tools, resources and prompts to a server of the product."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import mcp_types as types
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from knowledge.surfaces.mcp.server import KnowledgeServer
from tests.conformance import content, input_required
from tests.conformance.content import Context

Handle = Callable[[Context, Any], Awaitable[Any]]


def install(server: KnowledgeServer) -> None:
    """Handle the suite's names and pass all other requests to the product's handlers."""
    bus = InMemorySubscriptionBus()
    asks = input_required.InputRequestingTools(bus)
    schemas = {**content.SCHEMAS, **asks.schemas}
    own_schema = server.get_tool_input_schema
    server.get_tool_input_schema = lambda name: schemas.get(name) or (own_schema(name) if own_schema else None)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    _install_tools(server, asks, schemas)
    _install_resources(server)
    _install_prompts(server)
    _install_other_handlers(server, bus)


def _find_own_handler(server: KnowledgeServer, method: str) -> Handle:
    entry = server.get_request_handler(method)
    assert entry is not None
    return cast(Handle, entry.handler)


def _install_tools(server: KnowledgeServer, asks: input_required.InputRequestingTools, schemas: dict[str, Any]) -> None:
    listing, calling = _find_own_handler(server, "tools/list"), _find_own_handler(server, "tools/call")

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


def _install_resources(server: KnowledgeServer) -> None:
    reading = _find_own_handler(server, "resources/read")

    async def list_resources(_: Context, __: Any) -> Any:
        return types.ListResourcesResult(resources=content.RESOURCES)

    async def list_templates(_: Context, __: Any) -> Any:
        return types.ListResourceTemplatesResult(resource_templates=[content.TEMPLATE])

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        return content.read_resource(str(params.uri)) or await reading(context, params)

    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)


def _install_prompts(server: KnowledgeServer) -> None:
    getting = _find_own_handler(server, "prompts/get")

    async def list_prompts(_: Context, __: Any) -> Any:
        return types.ListPromptsResult(prompts=[*content.PROMPTS, input_required.PROMPT])

    async def get_prompt(context: Context, params: types.GetPromptRequestParams) -> Any:
        if params.name == input_required.PROMPT.name:
            return input_required.get_prompt(params)
        return content.get_prompt(params.name, params.arguments or {}) or await getting(context, params)

    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)


def _install_other_handlers(server: KnowledgeServer, bus: InMemorySubscriptionBus) -> None:
    async def complete_nothing(_: Context, __: Any) -> Any:
        return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))

    async def ignore_request(_: Context, __: Any) -> Any:
        return types.EmptyResult()

    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete_nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, ignore_request)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, ignore_request)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, ignore_request)
    server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus))
