"""Serves persistent connections (WebSocket, stdio), with or without an MCP handshake."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection, serve_dual_era_loop
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext

from knowledge.surfaces.mcp.request_context import BackgroundWork, McpRequest
from knowledge.surfaces.mcp.server import KnowledgeServer

MessageReader: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]

PLAIN_PROTOCOL_VERSION = "2025-06-18"
"""Protocol version for callers without a handshake: the one that contract 000 was written for."""


class MessageWriter(Protocol):
    """A stream for outgoing messages: one of anyio's or the SDK's own."""

    async def send(self, item: SessionMessage, /) -> None: ...

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


def make_task_starter(group: TaskGroup) -> Callable[[BackgroundWork], None]:
    """Return a function that starts background work in the task group of a connection."""

    def start(work: BackgroundWork) -> None:
        group.start_soon(work)

    return start


async def serve_stream(
    server: KnowledgeServer, mcp_request: McpRequest, read: MessageReader, write: MessageWriter
) -> None:
    """Serve one connection until the client disconnects, then cancel its pending requests.

    The first message decides between the handshake of either protocol era and plain JSON-RPC, and is replayed.
    """
    send, replayed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with send, replayed:
        async with anyio.create_task_group() as group:
            first = await _receive_first(read)
            group.start_soon(_replay, first, read, send)
            if first is None or opens_with_handshake(first):
                options = server.create_initialization_options()
                await serve_dual_era_loop(server, replayed, write, lifespan_state={}, init_options=options)
            else:
                mcp_request.is_plain = True
                await _serve_plain(server, replayed, write)
            group.cancel_scope.cancel()


async def _serve_plain(server: KnowledgeServer, read: MessageReader, write: MessageWriter) -> None:
    """Serve requests without a handshake, as in the examples of contract 000."""
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        read, write, inline_methods=frozenset({"initialize"})
    )
    connection = Connection.from_envelope(PLAIN_PROTOCOL_VERSION, None, None, outbound=dispatcher)
    await serve_connection(server, dispatcher, connection=connection, lifespan_state={})


async def _receive_first(read: MessageReader) -> SessionMessage | Exception | None:
    try:
        return await read.receive()
    except (anyio.EndOfStream, anyio.ClosedResourceError):
        return None


async def _replay(first: SessionMessage | Exception | None, read: MessageReader, send: Any) -> None:
    async with send:
        if first is None:
            return
        await send.send(first)
        async for item in read:
            await send.send(item)


def opens_with_handshake(item: SessionMessage | Exception) -> bool:
    """Return whether the first message of a connection belongs to either era of MCP."""
    if isinstance(item, Exception):
        return True
    message = item.message
    if not isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
        return True
    meta = (message.params or {}).get("_meta")
    modern = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
    return modern or message.method in ("initialize", "notifications/initialized", "server/discover")
