"""MCP over standard input and output, for agents that start us as their own process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import _claim_fd, _open_stdin_diversion, stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage

from knowledge.engine.api import Engine
from knowledge.model import Caller
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.mcp import jsonrpc
from knowledge.surfaces.mcp.connection import beside, serve_stream
from knowledge.surfaces.mcp.request_context import Visit, drawing
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.toolset_selection import Views
from knowledge.toolsets.base import Limits, Registry, View


async def serve_stdio(
    engine: Engine,
    registry: Registry,
    *,
    limits: Limits | None = None,
    toolsets: str = "",
    read_only: bool = False,
    caller: Caller | None = None,
    services: Mapping[type[object], object] | None = None,
    rates: RateLimits | None = None,
) -> None:
    """Serve until the other side closes our input."""
    server = KnowledgeServer(registry)
    view = View(Views.of(toolsets, registry.names).default, read_only)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with _lines() as lines, read:
        async with stdio_server(anyio.wrap_file(io.StringIO())) as (_, write), anyio.create_task_group() as group:
            server.home = Visit(
                engine=engine, view=view, caller=caller or Caller(), limits=limits or Limits(),
                services=services or {}, start=beside(group), draw=drawing(rates, caller or Caller()),
            )  # fmt: skip
            group.start_soon(_listen, lines, incoming, write)
            await serve_stream(server, read, write)
            group.cancel_scope.cancel()


@contextmanager
def _lines() -> Iterator[anyio.AsyncFile[str]]:
    """Our input; the SDK would not answer a line that is no message, and whoever sent it would wait for ever."""
    wire, release = _claim_fd(0, sys.stdin, "rb", _open_stdin_diversion)
    text = io.TextIOWrapper(wire, encoding="utf-8", errors="replace")
    try:
        yield anyio.wrap_file(text)
    finally:
        text.detach()
        if release is not None:
            release()


def _error(reply: jsonrpc.Reply) -> types.JSONRPCError:
    # Half a character in a caller's id could not be written, and would end the writer.
    return types.JSONRPCError.model_validate_json(json.dumps(reply.body, ensure_ascii=False).encode("utf-8", "replace"))


async def _listen(
    lines: anyio.AsyncFile[str],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    write: WriteStream[SessionMessage],
) -> None:
    async with incoming:
        async for line in lines:
            if not line.strip():
                continue
            message = jsonrpc.understood(line)
            with suppress(anyio.BrokenResourceError):
                if isinstance(message, jsonrpc.Reply):
                    await write.send(SessionMessage(_error(message)))
                else:
                    await incoming.send(SessionMessage(message))
