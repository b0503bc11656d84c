"""MCP session ids as JSON, for processes that serve MCP in front of a remote engine."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from knowledge.wire.requests import Body


class NewMcpSessionBody(Body):
    owner: str = Field(description="The caller that the session belongs to.", max_length=200)
    protocol_version: str = Field(description="The MCP version that was negotiated.", max_length=40)


class McpSessionBody(Body):
    session_id: str = Field(max_length=200)
    owner: str = Field(description="The caller that sent the id.", max_length=200)


@dataclass(frozen=True)
class IssuedMcpSession:
    session_id: str


@dataclass(frozen=True)
class McpSessionVersion:
    """The protocol version of a session; null if the id was not issued to this caller or has ended."""

    protocol_version: str | None


@dataclass(frozen=True)
class EndedMcpSession:
    ended: bool = True
