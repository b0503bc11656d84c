"""The SDK's low-level MCP server, with handlers for the registered toolsets."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
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

from knowledge.errors import KnowledgeError, NotFound, RateLimited
from knowledge.model import Json, ReportProgress
from knowledge.surfaces.mcp import errors as mcp_errors
from knowledge.surfaces.mcp.agent_reports import AgentReporter
from knowledge.surfaces.mcp.progress import follow_job, relay_progress
from knowledge.surfaces.mcp.request_context import SCOPE_KEY, McpRequest, SeenRequest
from knowledge.surfaces.mcp.subscriptions import DocumentWatches
from knowledge.telemetry import metrics
from knowledge.toolsets.answer_budget import ELLIPSIS, TRUNCATED, encode_answer
from knowledge.toolsets.arguments import suggest_name
from knowledge.toolsets.base import (
    RateClass,
    Refusal,
    Registry,
    ResourceText,
    Tool,
    ToolResult,
    Toolset,
    ignore_progress,
)
from knowledge.toolsets.hidden_characters import REMOVED, strip_answer, strip_hidden
from knowledge.version import __version__

log = logging.getLogger(__name__)

Context: TypeAlias = ServerRequestContext[Any, Any]

MS_PER_SECOND = 1000
CACHE_HINTS: dict[CacheableMethod, CacheHint] = {
    "tools/list": CacheHint(60 * MS_PER_SECOND),
    "prompts/list": CacheHint(60 * MS_PER_SECOND),
    "resources/templates/list": CacheHint(60 * MS_PER_SECOND),
    "server/discover": CacheHint(60 * MS_PER_SECOND),
    "resources/list": CacheHint(),
    "resources/read": CacheHint(),
}
"""How long clients of the stateless protocol may cache a response: tools change only with the server."""


COMPLETE_RESULT: Json = {"resultType": "complete"}
"""Required in every result of the stateless protocol; the SDK removes it for older versions."""


CONNECTING_METHODS = frozenset({"initialize", "server/discover"})
"""Methods whose results have instructions for the agent."""


MAX_NAME_CHARS = 100
"""Characters of an unknown tool name that its error repeats."""


class CancelParams(types.RequestParams):
    task_id: str


class KnowledgeServer(Server[dict[str, Any]]):
    """The MCP server of a registry; `default_request` is the context of stdio, which has no HTTP request."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(
            "knowledge-server",
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            cache_hints=CACHE_HINTS,
            get_tool_input_schema=lambda _: None,  # no argument is repeated in a header, so there is nothing to compare
        )
        self.registry = registry
        self.default_request: McpRequest | None = None
        self.reporter: AgentReporter | None = None
        """Set if the agents that use this server are recorded."""
        self.watches = DocumentWatches()
        self.middleware[:] = [self._handle_request]  # without the SDK's tracing, which takes a tenth of a call
        self.add_request_handler("tools/cancel", CancelParams, self._cancel_task)
        self.add_notification_handler("tools/cancel", CancelParams, self._handle_cancel_notification)

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

    def find_mcp_request(self, context: Context) -> McpRequest:
        if context.request is not None:
            mcp_request: McpRequest = context.request.scope[SCOPE_KEY]
            return mcp_request
        assert self.default_request is not None
        return self.default_request

    async def _handle_request(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Middleware: record the agent, explain every error, and send instructions to a client that connects."""
        if self.reporter is not None and ctx.request_id is not None:
            self._note_agent(self.reporter, ctx)
        try:
            result = await call_next(ctx)
        except Exception as error:
            raise explain_error(error, ctx.method) from error
        return self._add_instructions(result, ctx) if ctx.method in CONNECTING_METHODS else result

    def _note_agent(self, reporter: AgentReporter, ctx: Context) -> None:
        """Leave a note for the reporter, which reads it in its own task."""
        params, known, mcp_request = ctx.params or {}, ctx.session.client_params, self.find_mcp_request(ctx)
        meta = params.get("_meta")
        client = params.get("clientInfo") if ctx.method == "initialize" else None
        if client is None and isinstance(meta, Mapping):
            client = meta.get(types.CLIENT_INFO_META_KEY)
        reporter.inbox.append(
            SeenRequest(
                mcp_request.tool_call.caller,
                mcp_request.view.toolsets,
                ctx.method,
                params.get("name") if ctx.method == "tools/call" else None,
                client,
                None if known is None else known.client_info,
                ctx.request,
            )
        )
        if reporter.arrived is not None:
            reporter.arrived.set()

    def _add_instructions(self, result: HandlerResult, ctx: Context) -> HandlerResult:
        """Add the instructions of the toolsets that the request sees."""
        instructions = self.registry.join_instructions(self.find_mcp_request(ctx).view)
        return {**result, "instructions": instructions} if instructions and isinstance(result, dict) else result

    # -- tools ----------------------------------------------------------------------------------

    async def _list_tools(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return {**COMPLETE_RESULT, "tools": self.registry.list_schemas(self.find_mcp_request(context).view)}

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        mcp_request = self.find_mcp_request(context)
        tool = self.registry.find_tool(params.name, mcp_request.view)
        if tool is None:
            metrics.TOOL_CALLS[metrics.OTHER, metrics.OTHER, metrics.UNKNOWN_TOOL].inc()
            raise self._unknown_tool_error(params.name, mcp_request)
        run = partial(self._run_tool, tool, context, mcp_request, params.arguments)
        if progress_token_from_params(context.params) is None:
            return render_result(await run(ignore_progress), mcp_request)
        async with relay_progress(context.session.report_progress) as report:
            answer = await run(report)
        return render_result(answer, mcp_request)

    def _unknown_tool_error(self, name: str, mcp_request: McpRequest) -> MCPError:
        """Return an error whose message lists the valid names, because frameworks drop the data of errors."""
        valid = [tool.name for tool in self.registry.list_tools(mcp_request.view)]
        shown, meant = name[:MAX_NAME_CHARS], suggest_name(name[:MAX_NAME_CHARS], (), valid)
        suggestion = f" (did you mean '{meant}'?)" if meant else ""
        message = f"Unknown tool: {shown}{suggestion}. Valid tools: {', '.join(valid) or 'none'}"
        return mcp_errors.make_mcp_error(types.INVALID_PARAMS, message, "unknown_tool", tools=[*valid])

    async def _run_tool(
        self,
        tool: Tool,
        context: Context,
        mcp_request: McpRequest,
        arguments: Mapping[str, Any] | None,
        report: ReportProgress,
    ) -> ToolResult:
        if mcp_request.acquire is not None:
            try:
                await mcp_request.spend_allowance(tool.rate)
            except KnowledgeError as error:
                return tool.refuse(error)
        call = replace(
            mcp_request.tool_call, report=report, follow=partial(self._start_following, context, mcp_request)
        )
        return await tool.run(call, arguments)

    def _start_following(self, context: Context, mcp_request: McpRequest, job: UUID) -> None:
        if mcp_request.start_task is None:
            return
        send_progress = partial(context.session.send_progress_notification, str(job))
        mcp_request.start_task(partial(follow_job, mcp_request.tool_call.engine, job, send_progress))

    async def _cancel_task(self, context: Context, params: CancelParams) -> Json:
        mcp_request = self.find_mcp_request(context)
        handlers = [
            toolset.cancel for toolset in self.registry.select_toolsets(mcp_request.view) if toolset.cancel is not None
        ]
        if not handlers or mcp_request.view.read_only:
            raise mcp_errors.make_mcp_error(types.METHOD_NOT_FOUND, "Method not found", method="tools/cancel")
        await self._spend_allowance(mcp_request, RateClass.MANAGEMENT)
        answer = await handlers[0](mcp_request.tool_call, params.task_id)
        return strip_answer({**answer.body, "isError": True} if isinstance(answer, Refusal) else answer)

    async def _handle_cancel_notification(self, context: Context, params: CancelParams) -> None:
        await self._cancel_task(context, params)

    async def _spend_allowance(self, mcp_request: McpRequest, rate: RateClass) -> None:
        """Apply the rate limit of a method other than tools/call; raise a JSON-RPC error with the contract's code."""
        try:
            await mcp_request.spend_allowance(rate)
        except RateLimited as error:
            formatters = [toolset.format_error for toolset in self.registry.select_toolsets(mcp_request.view)]
            mcp_request.headers["x-mcp-error-code"] = formatters[0](error).code if formatters else error.code
            mcp_request.status = error.status
            raise MCPError(error.status, str(error), mcp_errors.format_error_data(error)) from error

    # -- resources and prompts ------------------------------------------------------------------

    async def _list_resources(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        mcp_request = self.find_mcp_request(context)
        await self._spend_allowance(mcp_request, RateClass.LIST)
        shown: list[Json] = []
        for toolset, resources in self.registry.list_resources(mcp_request.view):
            try:
                found = await resources.list(mcp_request.tool_call)
            except KnowledgeError as error:
                raise self._to_contract_error(mcp_request, toolset, error) from error
            shown += [
                {
                    "uri": item.uri,
                    "name": strip_hidden(item.name),
                    "description": strip_hidden(item.description),
                    "mimeType": item.mime_type,
                }
                for item in found
            ]
        return {**COMPLETE_RESULT, "resources": shown}

    async def _list_templates(self, context: Context, __: types.PaginatedRequestParams | None) -> Any:
        return {
            **COMPLETE_RESULT,
            "resourceTemplates": [
                {
                    "uriTemplate": item.uri_template,
                    "name": item.name,
                    "description": item.description,
                    "mimeType": item.mime_type,
                }
                for _, resources in self.registry.list_resources(self.find_mcp_request(context).view)
                for item in resources.templates
            ],
        }

    async def _read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        mcp_request, uri = self.find_mcp_request(context), str(params.uri)
        await self._spend_allowance(mcp_request, RateClass.RESOURCE)
        for toolset, resources in self.registry.list_resources(mcp_request.view):
            try:
                found = await resources.read(mcp_request.tool_call, uri)
            except KnowledgeError as error:
                if isinstance(error, NotFound) and toolset.format_error(error).status is None:
                    raise self._resource_not_found_error(context, uri, str(error)) from None
                raise self._to_contract_error(mcp_request, toolset, error) from error
            if found is not None:
                return {**COMPLETE_RESULT, "contents": [render_resource(found, mcp_request)]}
        raise self._resource_not_found_error(context, uri, f"Resource not found: {uri}")

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        mcp_request, uri = self.find_mcp_request(context), str(params.uri)
        subscriptions, start_task = mcp_request.subscriptions, mcp_request.start_task
        if subscriptions is None or start_task is None:
            raise mcp_errors.make_mcp_error(
                types.INVALID_REQUEST, "resources/subscribe needs a session: send initialize first", uri=uri
            )
        await self._spend_allowance(mcp_request, RateClass.RESOURCE)
        call, changed = mcp_request.tool_call, partial(context.session.send_resource_updated, uri)
        try:
            start_task(await self.watches.subscribe(subscriptions, call.caller, call.engine, uri, changed))
        except NotFound as error:
            raise self._resource_not_found_error(context, uri, str(error)) from None
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        subscriptions = self.find_mcp_request(context).subscriptions
        if subscriptions is not None:
            subscriptions.end(str(params.uri))
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        mcp_request = self.find_mcp_request(context)
        await self._spend_allowance(mcp_request, RateClass.RESOURCE)
        return await self.watches.listen(context, params, mcp_request.tool_call.caller, mcp_request.tool_call.engine)

    def _resource_not_found_error(self, context: Context, uri: str, message: str) -> MCPError:
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        data = {"error_type": "resource_not_found", "details": {"uri": uri}, "uri": uri}
        return MCPError(types.INVALID_PARAMS if modern else -32002, message, data)

    def _to_contract_error(self, mcp_request: McpRequest, toolset: Toolset, error: KnowledgeError) -> Exception:
        """Return the contract's JSON-RPC error, or the error itself if the contract does not refuse this way."""
        refusal = toolset.format_error(error)
        mcp_request.headers["x-mcp-error-code"] = refusal.code
        mcp_request.status = refusal.status
        return error if refusal.status is None else mcp_errors.to_mcp_error(refusal)

    async def _list_prompts(self, context: Context, _: types.PaginatedRequestParams | None) -> Any:
        return {
            **COMPLETE_RESULT,
            "prompts": [
                {
                    "name": prompt.name,
                    "description": prompt.description,
                    "arguments": [
                        {"name": item.name, "description": item.description, "required": item.required}
                        for item in prompt.arguments
                    ],
                }
                for toolset in self.registry.select_toolsets(self.find_mcp_request(context).view)
                for prompt in toolset.prompts
            ],
        }

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        mcp_request = self.find_mcp_request(context)
        prompts = {
            prompt.name: prompt
            for toolset in self.registry.select_toolsets(mcp_request.view)
            for prompt in toolset.prompts
        }
        prompt, given = prompts.get(params.name), params.arguments or {}
        if prompt is None:
            raise mcp_errors.make_mcp_error(
                types.INVALID_PARAMS, f"Unknown prompt: {params.name}", "unknown_prompt", prompts=list(prompts)
            )
        for missing in (item.name for item in prompt.arguments if item.required and not given.get(item.name)):
            raise mcp_errors.make_mcp_error(
                types.INVALID_PARAMS, f"Missing argument: {missing}", "missing_required_parameter", parameter=missing
            )
        await self._spend_allowance(mcp_request, RateClass.QUERY)
        try:
            text = strip_hidden(await prompt.render(mcp_request.tool_call, given))
        except KnowledgeError as error:
            raise mcp_errors.make_mcp_error(types.INVALID_PARAMS, str(error), error.code, **error.details) from error
        return {
            **COMPLETE_RESULT,
            "description": prompt.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }


def render_result(answer: ToolResult, mcp_request: McpRequest) -> Json:
    """Return the MCP tool result: the contract's JSON as a text block and as `structuredContent`.

    Contract 001 refuses plain callers by a JSON-RPC error; frameworks drop its data, so MCP clients get a result.
    """
    body = answer.body if isinstance(answer, Refusal) else answer
    if isinstance(answer, Refusal):
        mcp_request.headers["x-mcp-error-code"] = answer.code
        if answer.status is not None:
            if mcp_request.is_plain:
                mcp_request.status = answer.status
                raise mcp_errors.to_mcp_error(answer)
            body = mcp_errors.format_tool_refusal(answer)
    return {
        **COMPLETE_RESULT,
        "content": [{"type": "text", "text": encode_answer(body)}],
        "structuredContent": body,
        "isError": isinstance(answer, Refusal),
    }


def render_resource(found: ResourceText, mcp_request: McpRequest) -> Json:
    """Return the contents of a resource without hidden characters, cut to the answer budget."""
    limit, removed = mcp_request.tool_call.limits.answer_chars, Counter[str]()
    text, meta = strip_hidden(found.text, removed), dict(found.meta)
    if removed:
        meta[REMOVED] = dict(removed)
    if len(text) > limit:
        text, meta[TRUNCATED] = text[: limit - len(ELLIPSIS)] + ELLIPSIS, True
    body: Json = {"uri": found.uri, "mimeType": found.mime_type, "text": text}
    return {**body, "_meta": meta} if meta else body


def explain_error(error: Exception, method: str) -> MCPError:
    """Return a JSON-RPC error with type and details; log an unexpected exception and hide its text."""
    if isinstance(error, MCPError):
        return MCPError(error.code, error.message, mcp_errors.add_error_type(error.code, error.data))
    if isinstance(error, ValidationError):
        places = [".".join(str(part) for part in detail["loc"]) for detail in error.errors(include_input=False)]
        return mcp_errors.make_mcp_error(
            types.INVALID_PARAMS, "Invalid request parameters", method=method, parameters=[*dict.fromkeys(places)]
        )
    if isinstance(error, KnowledgeError):
        return MCPError(error.status, str(error), mcp_errors.format_error_data(error))
    log.error("%s failed", method, exc_info=error)
    return mcp_errors.make_mcp_error(types.INTERNAL_ERROR, "Internal error")
