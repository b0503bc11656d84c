"""Serves MCP over WebSocket, on the same paths as over HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from knowledge.errors import KnowledgeError
from knowledge.surfaces.mcp import jsonrpc
from knowledge.surfaces.mcp.message_stream import make_task_starter, serve_stream
from knowledge.surfaces.mcp.request_context import SCOPE_KEY, McpRequest
from knowledge.surfaces.mcp.subscriptions import SessionSubscriptions
from knowledge.surfaces.mcp.surface import MAX_BODY_BYTES, McpSurface

CLOSE_TOO_BIG = 1009


def make_websocket_endpoint(surface: McpSurface) -> Callable[[WebSocket], Awaitable[None]]:
    async def endpoint(socket: WebSocket) -> None:
        try:
            mcp_request = surface.admit_request(socket.scope, socket.headers)
        except KnowledgeError as error:
            await socket.close(1008, str(error)[:120])
            return
        socket.scope[SCOPE_KEY] = mcp_request
        try:
            await socket.accept("mcp" if "mcp" in socket.scope.get("subprotocols", []) else None)
            async with anyio.create_task_group() as group:
                mcp_request.start_task = make_task_starter(group)
                mcp_request.subscriptions = SessionSubscriptions()
                await _serve_socket(surface, mcp_request, socket)
                group.cancel_scope.cancel()
            await socket.close()
        except* (WebSocketDisconnect, anyio.BrokenResourceError):
            pass  # the client disconnected
        except* RuntimeError:
            if socket.client_state is socket.application_state is WebSocketState.CONNECTED:
                raise  # otherwise Starlette raised it for a send or receive after the close

    return endpoint


async def _serve_socket(surface: McpSurface, mcp_request: McpRequest, socket: WebSocket) -> None:
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    with incoming, read, write, outgoing:
        async with anyio.create_task_group() as group:
            group.start_soon(_write_messages, socket, outgoing)
            group.start_soon(_read_until_closed, socket, incoming, group.cancel_scope)
            await serve_stream(surface.server, mcp_request, read, write)
            group.cancel_scope.cancel()


async def _read_until_closed(
    socket: WebSocket, incoming: MemoryObjectSendStream[SessionMessage | Exception], scope: anyio.CancelScope
) -> None:
    await _read_messages(socket, incoming)
    scope.cancel()  # the client disconnected: cancel its pending requests


async def _read_messages(socket: WebSocket, incoming: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
    async with incoming:
        while (event := await socket.receive())["type"] == "websocket.receive":
            text = event.get("text")
            raw = text if text is not None else (event.get("bytes") or b"").decode("utf-8", "replace")
            if len(raw) > MAX_BODY_BYTES:
                await socket.close(CLOSE_TOO_BIG)
                return
            message = jsonrpc.parse_message(raw)
            if isinstance(message, jsonrpc.Reply):
                await socket.send_text(json.dumps(message.body))
            else:
                await incoming.send(SessionMessage(message, metadata=ServerMessageMetadata(request_context=socket)))


async def _write_messages(socket: WebSocket, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with outgoing:
        async for item in outgoing:
            await socket.send_text(item.message.model_dump_json(by_alias=True, exclude_unset=True))
