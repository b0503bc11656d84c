"""Connections that stay open (WebSocket, stdio): the first message says which era they speak, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server.connection import Connection
from mcp.server.runner import serve_connection, serve_dual_era_loop
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext

from knowledge.surfaces.mcp.request_context import Work
from knowledge.surfaces.mcp.server import KnowledgeServer

Reading: TypeAlias = ReadStream[SessionMessage | Exception]
Writing: TypeAlias = WriteStream[SessionMessage]

PLAIN_VERSION = "2025-06-18"
"""The revision that contract 000 was written for; plain callers are answered in it."""


def beside(group: TaskGroup) -> Callable[[Work], None]:
    """Starts work that lives as long as the connection."""

    def start(work: Work) -> None:
        group.start_soon(work)

    return start


async def serve_stream(server: KnowledgeServer, read: Reading, write: Writing) -> None:
    """Serve one connection until the other side leaves; then what it still waits for is stopped."""
    send, replayed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with send, replayed:
        async with anyio.create_task_group() as group:
            opening = await _first(read)
            group.start_soon(_replay, opening, read, send)
            if opening is None or opens_with_era(opening):
                options = server.create_initialization_options()
                await serve_dual_era_loop(server, replayed, write, lifespan_state={}, init_options=options)
            else:
                await _serve_plain(server, replayed, write)
            group.cancel_scope.cancel()


async def _serve_plain(server: KnowledgeServer, read: Reading, write: Writing) -> None:
    """Requests without any handshake, as contract 000 shows them."""
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        read, write, inline_methods=frozenset({"initialize"})
    )
    connection = Connection.from_envelope(PLAIN_VERSION, None, None, outbound=dispatcher)
    await serve_connection(server, dispatcher, connection=connection, lifespan_state={})


async def _first(read: Reading) -> SessionMessage | Exception | None:
    """The first message that is one; the loops answer what is not."""
    try:
        return await read.receive()
    except (anyio.EndOfStream, anyio.ClosedResourceError):
        return None


async def _replay(opening: SessionMessage | Exception | None, read: Reading, send: Any) -> None:
    async with send:
        if opening is None:
            return
        await send.send(opening)
        async for item in read:
            await send.send(item)


def opens_with_era(item: SessionMessage | Exception) -> bool:
    """Whether a connection begins as one of the two eras of the protocol has it."""
    if isinstance(item, Exception):
        return True
    message = item.message
    if not isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
        return True
    meta = (message.params or {}).get("_meta")
    modern = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
    return modern or message.method in ("initialize", "notifications/initialized", "server/discover")
