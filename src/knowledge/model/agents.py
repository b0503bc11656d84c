"""Agents that use MCP, and attempts that were refused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from knowledge.model.accounts import CallerKind


class AgentTransport(StrEnum):
    HTTP = "http"
    WEBSOCKET = "websocket"
    STDIO = "stdio"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSighting:
    """Requests of one agent since the last report."""

    client: str
    """Name that the client gave when it connected, or the first word of its User-Agent."""
    version: str = ""
    transport: AgentTransport = AgentTransport.HTTP
    toolset: str = ""
    """The toolsets that it sees, separated by commas."""
    caller: CallerKind = CallerKind.LOCAL
    key_prefix: str = ""
    """Public part of the account's key."""
    calls: int = 0
    """Tools that it called."""
    last_tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent that has connected in the last days."""

    id: int
    client: str
    version: str
    transport: AgentTransport
    toolset: str
    caller: CallerKind
    key_name: str
    """Name of the account's key; empty for other callers and for a key that was revoked."""
    first_seen: datetime
    last_seen: datetime
    calls: int
    last_tool: str | None


class RefusalReason(StrEnum):
    NO_KEY = "no_key"
    WRONG_KEY = "wrong_key"
    EXPIRED_KEY = "expired_key"
    HOST = "host"
    ORIGIN = "origin"
    TOO_MANY = "too_many"
    """Too many wrong keys from this address."""
    TOOLSET = "toolset"
    """The address names a toolset that is not served."""
    TRANSPORT = "transport"
    """The older HTTP+SSE transport."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRefusal:
    """An attempt to use MCP that was refused."""

    reason: RefusalReason
    client: str = ""
    """First word of the User-Agent header."""
    address: str = ""
    path: str = ""
    detail: str = ""
    """The host, origin or toolset that was refused."""
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedAttempt:
    """Equal attempts that were refused, with the time of the last one."""

    id: int
    reason: RefusalReason
    client: str
    address: str
    path: str
    detail: str
    attempts: int
    last_at: datetime
