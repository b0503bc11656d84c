"""One exchange of the modern era without a stream: a call that only reads has ended before a stream is worth its cost.

Only what is plainly such a call is answered here; everything else goes to the SDK, which also words every rejection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from mcp.server.connection import Connection
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundModernRoute,
    classify_inbound_request,
    find_duplicated_routing_header,
)
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from knowledge.model import Json, JsonValue
from knowledge.surfaces.mcp import jsonrpc
from knowledge.surfaces.mcp.request_context import Visit
from knowledge.surfaces.mcp.server import KnowledgeServer

CANCEL = "tools/cancel"


def may_be_short(server: KnowledgeServer, visit: Visit, headers: Mapping[str, str]) -> bool:
    """Whether the headers promise a call of a tool that only reads, or the end of a task."""
    if headers.get("mcp-method") == CANCEL:
        return True
    if headers.get("mcp-method") != "tools/call" or headers.get("mcp-protocol-version") not in MODERN_PROTOCOL_VERSIONS:
        return False
    tool = server.registry.tool(headers.get("mcp-name", ""), visit.view)
    accept = headers.get("accept", "")
    return (
        tool is not None
        and tool.read_only
        and "application/json" in accept
        and "text/event-stream" in accept
        and headers.get("content-type", "").lower().startswith("application/json")
    )


def is_cancelling(message: JsonValue) -> bool:
    """Whether this ends a task and wants no answer; the SDK drops every notification of this era."""
    return isinstance(message, dict) and message.get("method") == CANCEL and "id" not in message


def route_of(message: JsonValue, headers: Mapping[str, str], request: Request) -> InboundModernRoute | None:
    """The route of a request that keeps the headers' promise and asks for no progress; None sends it to the SDK."""
    if not isinstance(message, dict) or message.get("id") is None or jsonrpc.wrong(message) is not None:
        return None
    if progress_token_from_params(cast("Json | None", message.get("params"))) is not None:
        return None
    if find_duplicated_routing_header(request.headers.items()) is not None:
        return None
    verdict = classify_inbound_request(message, headers=headers)
    return verdict if isinstance(verdict, InboundModernRoute) else None


async def answer(
    server: KnowledgeServer, message: JsonValue, route: InboundModernRoute, request: Request
) -> jsonrpc.Reply:
    assert isinstance(message, dict)
    connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    return await jsonrpc.respond(server, message, request, connection, ERROR_CODE_HTTP_STATUS)
