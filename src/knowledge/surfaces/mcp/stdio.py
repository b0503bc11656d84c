"""Serves MCP over standard input and output, for clients that start the server as a child process."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.os.win32.utilities import rebind_std_handle_to_fd
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from knowledge.engine.api import Engine
from knowledge.model import Caller
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.surfaces.mcp import jsonrpc
from knowledge.surfaces.mcp.agent_reports import AgentReporter
from knowledge.surfaces.mcp.message_stream import MessageWriter, make_task_starter, serve_stream
from knowledge.surfaces.mcp.request_context import McpRequest, make_acquire
from knowledge.surfaces.mcp.server import KnowledgeServer
from knowledge.surfaces.mcp.subscriptions import SessionSubscriptions
from knowledge.surfaces.mcp.toolset_selection import ToolsetSelection
from knowledge.toolsets.base import CallLimits, Registry, ToolCall, ToolsetView
from knowledge.toolsets.values import ServerLinks

HANDSHAKE_METHODS = ("initialize", "server/discover")


async def serve_stdio(
    engine: Engine,
    registry: Registry,
    *,
    limits: CallLimits | None = None,
    links: ServerLinks | None = None,
    toolsets: str = "",
    read_only: bool = False,
    caller: Caller | None = None,
    services: Mapping[type[object], object] | None = None,
    rates: RateLimits | None = None,
    on_handshake_end: Callable[[], None] = lambda: None,
    reports_agents: bool = False,
) -> None:
    """Serve until standard input is closed; `on_handshake_end` is called at the first message after the handshake."""
    server = KnowledgeServer(registry)
    selection = ToolsetSelection.from_setting(toolsets, registry.names, registry.standalone_names)
    view = ToolsetView(selection.over_stdio, read_only)
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    with _open_input() as lines, read:
        async with stdio_server(anyio.wrap_file(io.StringIO())) as (_, write), anyio.create_task_group() as group:
            call = ToolCall(
                engine=engine, caller=caller or Caller(), limits=limits or CallLimits(), links=links or ServerLinks(),
                services=services or {},
            )  # fmt: skip
            server.default_request = McpRequest(
                tool_call=call,
                view=view,
                start_task=make_task_starter(group),
                acquire=make_acquire(rates, call.caller),
                subscriptions=SessionSubscriptions(),
            )
            if reports_agents:
                server.reporter = AgentReporter(lambda _: engine)
                group.start_soon(server.reporter.run)
            group.start_soon(_read_messages, lines, incoming, write, on_handshake_end)
            await serve_stream(server, server.default_request, read, write)
            group.cancel_scope.cancel()


@contextmanager
def _open_input() -> Iterator[anyio.AsyncFile[str]]:
    """Open standard input as text lines.

    The SDK's own reader does not answer invalid lines, so their sender would wait forever.
    """
    with claim_stdin() as stdin:
        text = io.TextIOWrapper(stdin, encoding="utf-8", errors="replace")
        try:
            yield anyio.wrap_file(text)
        finally:
            text.detach()


@contextmanager
def claim_stdin() -> Iterator[BinaryIO]:
    """Move standard input to a private descriptor and point 0 at the null device, so child processes cannot read it.

    The SDK does the same for standard output. The private descriptor is not closed: a thread may still read from it.
    """
    private = _duplicate_stdin()
    if private is None:
        yield sys.stdin.buffer
        return
    null = os.open(os.devnull, os.O_RDONLY)
    _point_stdin_at(null)
    os.close(null)
    try:
        yield os.fdopen(private, "rb", closefd=False)
    finally:
        _point_stdin_at(private)


def _duplicate_stdin() -> int | None:
    """Duplicate standard input to a descriptor above 2; return None if sys.stdin is not descriptor 0."""
    try:
        private = os.dup(0) if sys.stdin.buffer.fileno() == 0 else 0
    except (OSError, ValueError, AttributeError):
        return None
    if 0 < private <= 2:
        os.close(private)
    return private if private > 2 else None


def _point_stdin_at(descriptor: int) -> None:
    os.dup2(descriptor, 0)
    if sys.platform == "win32":  # children inherit the handle, not the descriptor
        with suppress(OSError):
            rebind_std_handle_to_fd(0)


def _to_error_message(reply: jsonrpc.Reply) -> types.JSONRPCError:
    # A lone surrogate in the caller's id cannot be encoded as UTF-8 and would end the writer.
    return types.JSONRPCError.model_validate_json(json.dumps(reply.body, ensure_ascii=False).encode("utf-8", "replace"))


async def _read_messages(
    lines: anyio.AsyncFile[str],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    write: MessageWriter,
    on_handshake_end: Callable[[], None],
) -> None:
    in_handshake = True
    async with incoming:
        async for line in lines:
            if not line.strip():
                continue
            message = jsonrpc.parse_message(line)
            if in_handshake and getattr(message, "method", "") not in HANDSHAKE_METHODS:
                in_handshake = False
                on_handshake_end()
            with suppress(anyio.BrokenResourceError):
                if isinstance(message, jsonrpc.Reply):
                    await write.send(SessionMessage(_to_error_message(message)))
                else:
                    await incoming.send(SessionMessage(message))
