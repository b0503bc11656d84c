"""Connections that stay open (WebSocket, stdio): the first message says which era they speak, or none."""

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

from knowledge.surfaces.mcp.request_context import BackgroundWork
from knowledge.surfaces.mcp.server import KnowledgeServer

MessageReader: TypeAlias = MemoryObjectReceiveStream[SessionMessage | Exception]

PLAIN_PROTOCOL_VERSION = "2025-06-18"
"""The revision that contract 000 was written for; plain callers are answered in it."""


class MessageWriter(Protocol):
    """The stream that messages leave by: one of anyio's, or the SDK's own."""

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
    """Starts work that lives as long as the connection."""

    def start(work: BackgroundWork) -> None:
        group.start_soon(work)

    return start


async def serve_stream(server: KnowledgeServer, read: MessageReader, write: MessageWriter) -> None:
    """Serve one connection until the other side leaves; then what it still waits for is stopped."""
    send, replayed = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with send, replayed:
        async with anyio.create_task_group() as group:
            opening = await _receive_first(read)
            group.start_soon(_replay, opening, read, send)
            if opening is None or opens_with_handshake(opening):
                options = server.create_initialization_options()
                await serve_dual_era_loop(server, replayed, write, lifespan_state={}, init_options=options)
            else:
                await _serve_plain(server, replayed, write)
            group.cancel_scope.cancel()


async def _serve_plain(server: KnowledgeServer, read: MessageReader, write: MessageWriter) -> None:
    """Requests without any handshake, as contract 000 shows them."""
    dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(
        read, write, inline_methods=frozenset({"initialize"})
    )
    connection = Connection.from_envelope(PLAIN_PROTOCOL_VERSION, None, None, outbound=dispatcher)
    await serve_connection(server, dispatcher, connection=connection, lifespan_state={})


async def _receive_first(read: MessageReader) -> SessionMessage | Exception | None:
    """The first message that is one; the loops answer what is not."""
    try:
        return await read.receive()
    except (anyio.EndOfStream, anyio.ClosedResourceError):
        return None


async def _replay(opening: SessionMessage | Exception | None, read: MessageReader, send: Any) -> None:
    async with send:
        if opening is None:
            return
        await send.send(opening)
        async for item in read:
            await send.send(item)


def opens_with_handshake(item: SessionMessage | Exception) -> bool:
    """Whether a connection begins as one of the two eras of the protocol has it."""
    if isinstance(item, Exception):
        return True
    message = item.message
    if not isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
        return True
    meta = (message.params or {}).get("_meta")
    modern = isinstance(meta, dict) and types.PROTOCOL_VERSION_META_KEY in meta
    return modern or message.method in ("initialize", "notifications/initialized", "server/discover")
