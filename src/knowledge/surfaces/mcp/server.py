"""The registry as an MCP server: the SDK's low-level Server, with handlers that read our tools."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

import mcp_types as types
from mcp.server.caching import CacheableMethod, CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from knowledge import __version__
from knowledge.errors import KnowledgeError, NotFound, RateLimited
from knowledge.model import Json, Report
from knowledge.surfaces.mcp import errors as mcp_errors
from knowledge.surfaces.mcp.progress import follow, relayed
from knowledge.surfaces.mcp.request_context import SCOPE_KEY, Visit
from knowledge.toolsets.base import Answered, Rate, Refused, Registry, Resources, Tool, Toolset, silent

log = logging.getLogger(__name__)

Context: TypeAlias = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Search the user's own documents before answering from memory, and name the document that an answer comes from. "
    "Add files with their paths; long ones are processed in the background and can be asked about by their task."
)


SECONDS = 1000
FRESH: dict[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(60 * SECONDS),
    "prompts/list": CacheHint(60 * SECONDS),
    "resources/templates/list": CacheHint(60 * SECONDS),
    "server/discover": CacheHint(60 * SECONDS),
    "resources/list": CacheHint(),
    "resources/read": CacheHint(),
}
"""How long a modern client may keep an answer: tools change with the server, documents at any time."""


COMPLETE: Json = {"resultType": "complete"}
"""What the modern era wants in every result; the older ones never see it."""


class CancelParams(types.RequestParams):
    task_id: str


class KnowledgeServer(Server[dict[str, Any]]):
    """The SDK's server with our handlers; `home` is the visit of a connection that has no request, such as stdio."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(
            "knowledge-server",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            cache_hints=FRESH,
            get_tool_input_schema=lambda _: None,  # no argument of ours is repeated in a header, so none is compared
        )
        self.registry = registry
        self.home: Visit | None = None
        self.middleware[:] = [explain]  # tracing is not ours to start, and costs a tenth of a call
        self.add_request_handler("tools/cancel", CancelParams, self._cancel)
        self.add_notification_handler("tools/cancel", CancelParams, self._cancel_notified)

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, experimental_capabilities, extensions)

    @property
    def server_info_stamp(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version}

    def visit(self, context: Context) -> Visit:
        if context.request is not None:
            visit: Visit = context.request.scope[SCOPE_KEY]
            return visit
        assert self.home is not None
        return self.home

    # -- tools ----------------------------------------------------------------------------------

    async def _list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return {**COMPLETE, "tools": self.registry.listing(self.visit(context).view)}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        visit = self.visit(context)
        tool = self.registry.tool(params.name, visit.view)
        if tool is None:
            raise mcp_errors.fault(
                types.INVALID_PARAMS, f"Unknown tool: {params.name}", "unknown_tool",
                tools=[known.name for known in self.registry.tools(visit.view)],
            )  # fmt: skip
        async with self._reporting(context) as report:
            answer = await self._answer(tool, context, visit, report, params.arguments)
        return rendered(answer, visit)

    async def _answer(
        self, tool: Tool, context: Context, visit: Visit, report: Report, arguments: Mapping[str, Any] | None
    ) -> Answered:
        try:
            await visit.spend(tool.rate)
        except KnowledgeError as error:
            return tool.voice(error)
        return await tool.run(visit.call(report, partial(self._follow, context, visit)), arguments)

    @asynccontextmanager
    async def _reporting(self, context: Context) -> AsyncIterator[Report]:
        """Progress goes out only to those who gave a token for it."""
        if progress_token_from_params(context.params) is None:
            yield silent
            return
        async with relayed(context.session.report_progress) as report:
            yield report

    def _follow(self, context: Context, visit: Visit, job: UUID) -> None:
        if visit.start is None:
            return
        tell = partial(context.session.send_progress_notification, str(job))
        visit.start(partial(follow, visit.engine, job, tell))

    async def _cancel(self, context: Context, params: CancelParams) -> Json:
        visit = self.visit(context)
        able = [toolset.cancel for toolset in self.registry.seen(visit.view) if toolset.cancel is not None]
        if not able or visit.view.read_only:
            raise mcp_errors.fault(types.METHOD_NOT_FOUND, "Method not found", method="tools/cancel")
        await self._spend(visit, Rate.MANAGEMENT)
        answer = await able[0](visit.call(), params.task_id)
        return {**answer.body, "isError": True} if isinstance(answer, Refused) else answer

    async def _cancel_notified(self, context: Context, params: CancelParams) -> None:
        await self._cancel(context, params)

    async def _spend(self, visit: Visit, rate: Rate) -> None:
        """Draw on an allowance for what is no tool; refused on the JSON-RPC plane, in the first contract's code."""
        try:
            await visit.spend(rate)
        except RateLimited as error:
            voices = [toolset.voice for toolset in self.registry.seen(visit.view)]
            visit.headers["x-mcp-error-code"] = voices[0](error).code if voices else error.code
            visit.status = error.status
            raise MCPError(error.status, str(error), mcp_errors.facts(error)) from error

    # -- resources and prompts ------------------------------------------------------------------

    async def _list_resources(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        visit = self.visit(context)
        await self._spend(visit, Rate.LIST)
        shown: list[Json] = []
        for toolset, resources in self._resources(visit):
            try:
                found = await resources.list(visit.call())
            except KnowledgeError as error:
                raise self._refusal(visit, toolset, error) from error
            shown += [
                {"uri": item.uri, "name": item.name, "description": item.description, "mimeType": item.mime_type}
                for item in found
            ]
        return {**COMPLETE, "resources": shown}

    async def _list_templates(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return {
            **COMPLETE,
            "resourceTemplates": [
                {
                    "uriTemplate": item.uri_template, "name": item.name, "description": item.description,
                    "mimeType": item.mime_type,
                }
                for toolset in self.registry.seen(self.visit(context).view) if toolset.resources is not None
                for item in toolset.resources.templates
            ]
        }  # fmt: skip

    async def _read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        visit, uri = self.visit(context), str(params.uri)
        await self._spend(visit, Rate.RESOURCE)
        for toolset, resources in self._resources(visit):
            try:
                found = await resources.read(visit.call(), uri)
            except KnowledgeError as error:
                if isinstance(error, NotFound) and toolset.voice(error).status is None:
                    raise self._no_resource(context, uri, str(error)) from None
                raise self._refusal(visit, toolset, error) from error
            if found is not None:
                return {**COMPLETE, "contents": [{"uri": found.uri, "mimeType": found.mime_type, "text": found.text}]}
        raise self._no_resource(context, uri, f"Resource not found: {uri}")

    def _resources(self, visit: Visit) -> list[tuple[Toolset, Resources]]:
        """The contracts of a view that let clients read something."""
        return [(one, one.resources) for one in self.registry.seen(visit.view) if one.resources is not None]

    def _no_resource(self, context: Context, uri: str, message: str) -> MCPError:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        data = {"error_type": "resource_not_found", "details": {"uri": uri}, "uri": uri}
        return MCPError(types.INVALID_PARAMS if modern else -32002, message, data)

    def _refusal(self, visit: Visit, toolset: Toolset, error: KnowledgeError) -> Exception:
        """A contract's own words where it refuses on the JSON-RPC plane; otherwise the error as it is."""
        refused = toolset.voice(error)
        visit.headers["x-mcp-error-code"] = refused.code
        visit.status = refused.status
        return error if refused.status is None else mcp_errors.on_the_rpc_plane(refused)

    async def _list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return {
            **COMPLETE,
            "prompts": [
                {
                    "name": prompt.name, "description": prompt.description,
                    "arguments": [
                        {"name": item.name, "description": item.description, "required": item.required}
                        for item in prompt.arguments
                    ],
                }
                for toolset in self.registry.seen(self.visit(context).view) for prompt in toolset.prompts
            ]
        }  # fmt: skip

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        visit = self.visit(context)
        prompts = {prompt.name: prompt for toolset in self.registry.seen(visit.view) for prompt in toolset.prompts}
        prompt, given = prompts.get(params.name), params.arguments or {}
        if prompt is None:
            raise mcp_errors.fault(
                types.INVALID_PARAMS, f"Unknown prompt: {params.name}", "unknown_prompt", prompts=list(prompts)
            )
        for missing in (item.name for item in prompt.arguments if item.required and not given.get(item.name)):
            raise mcp_errors.fault(
                types.INVALID_PARAMS, f"Missing argument: {missing}", "missing_required_parameter", parameter=missing
            )
        await self._spend(visit, Rate.QUERY)
        try:
            text = await prompt.render(visit.call(), given)
        except KnowledgeError as error:
            raise mcp_errors.fault(types.INVALID_PARAMS, str(error), error.code, **error.details) from error
        return {
            **COMPLETE,
            "description": prompt.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }


def rendered(answer: Answered, visit: Visit) -> Json:
    """An answer as a tool result: the contract's JSON as text, and the same object beside it."""
    if isinstance(answer, Refused):
        visit.headers["x-mcp-error-code"] = answer.code
        if answer.status is not None:
            visit.status = answer.status
            raise mcp_errors.on_the_rpc_plane(answer)
    body = answer.body if isinstance(answer, Refused) else answer
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return {
        **COMPLETE,
        "content": [{"type": "text", "text": text}],
        "structuredContent": body,
        "isError": isinstance(answer, Refused),
    }


async def explain(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Every error that leaves says its type and details; what nobody foresaw is logged and not shown."""
    try:
        return await call_next(ctx)
    except MCPError as error:
        raise MCPError(error.code, error.message, mcp_errors.explained(error.code, error.data)) from error
    except ValidationError as error:
        places = [".".join(str(part) for part in detail["loc"]) for detail in error.errors(include_input=False)]
        raise mcp_errors.fault(
            types.INVALID_PARAMS,
            "Invalid request parameters",
            method=ctx.method,
            parameters=[*dict.fromkeys(places)],
        ) from error
    except KnowledgeError as error:
        raise MCPError(error.status, str(error), mcp_errors.facts(error)) from error
    except Exception as error:
        log.exception("%s failed", ctx.method)
        raise mcp_errors.fault(types.INTERNAL_ERROR, "Internal error") from error
