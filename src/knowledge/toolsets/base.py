"""Tools as data: a contract registers its functions here, and every surface, page and test reads them from here."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar, cast
from uuid import UUID

from knowledge.engine.api import Engine
from knowledge.errors import Internal, KnowledgeError
from knowledge.model import Caller, Json, JsonValue, Report
from knowledge.toolsets.arguments import Arguments, arguments_of, schema_of, understand
from knowledge.toolsets.paths import Folders

log = logging.getLogger(__name__)

Service = TypeVar("Service")
Saying = TypeVar("Saying")


class Rate(StrEnum):
    """Which allowance a call draws on."""

    QUERY = "query"
    LIST = "list"
    RESOURCE = "resource"
    UPLOAD = "upload"
    MANAGEMENT = "management"
    AUTHENTICATION = "authentication"


def silent(step: str, done: int, total: int) -> None:
    """A report that nobody asked for."""


def unfollowed(job: UUID) -> None:
    """A connection that cannot be told anything later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the operator allows a call."""

    max_file_bytes: int = 100 << 20
    wait_s: float = 50.0
    """How long a call waits for its job before it answers without."""
    folders: Folders = field(default_factory=Folders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call on its way: who asks, through which engine, and how to tell them about progress."""

    engine: Engine
    caller: Caller = field(default_factory=Caller)
    limits: Limits = field(default_factory=Limits)
    report: Report = silent
    follow: Callable[[UUID], None] = unfollowed
    """Tell the connection about a job's progress after this call has been answered, where it stays open."""
    services: Mapping[type[object], object] = field(default_factory=dict)

    def service(self, kind: type[Service]) -> Service:
        """Something that a toolset keeps for the life of the server, such as staged uploads."""
        return cast(Service, self.services[kind])


@dataclass(frozen=True, slots=True)
class Refused:
    """A contract's own way of saying no."""

    body: Json
    code: str = "error"
    """What `X-MCP-Error-Code` says."""
    status: int | None = None
    """Set where the contract refuses on the JSON-RPC plane: the code of the error and a plain caller's HTTP status."""


Answered: TypeAlias = Json | Refused
Handler: TypeAlias = Callable[..., Awaitable[Answered]]
Voice: TypeAlias = Callable[[KnowledgeError], Refused]
"""How a contract words an error."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Its arguments and their schema are made from the handler when somebody asks, so that a start need not wait."""

    name: str
    toolset: str
    description: str
    handler: Handler
    voice: Voice
    rate: Rate
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    flat: bool = False
    """Plain JSON-RPC callers get the fields at the top of the result too."""

    @cached_property
    def arguments(self) -> type[Arguments]:
        return arguments_of(self.handler, self.name)

    @cached_property
    def schema(self) -> Json:
        return schema_of(self.arguments)

    @property
    def annotations(self) -> Json:
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }

    @property
    def listing(self) -> Json:
        """The tool as clients see it."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": self.annotations,
        }

    async def run(self, call: Call, arguments: Mapping[str, JsonValue] | None) -> Answered:
        """Answer or refuse; only cancellation passes through."""
        try:
            return await self.handler(call, **understand(self.arguments, arguments))
        except KnowledgeError as error:
            return self.voice(error)
        except Exception:
            log.exception("%s failed", self.name)
            return self.voice(Internal(f"{self.name} failed because of a fault in the server"))


@dataclass(frozen=True, slots=True)
class Resource:
    uri: str
    name: str
    description: str
    mime_type: str = "text/markdown"


@dataclass(frozen=True, slots=True)
class ResourceTemplate:
    uri_template: str
    name: str
    description: str
    mime_type: str = "text/markdown"


@dataclass(frozen=True, slots=True)
class ResourceText:
    uri: str
    text: str
    mime_type: str = "text/markdown"


class Resources(Protocol):
    """What a contract lets clients read beside its tools."""

    templates: Sequence[ResourceTemplate]

    async def list(self, call: Call) -> list[Resource]: ...

    async def read(self, call: Call, uri: str) -> ResourceText | None:
        """None when the address is not one of this contract's; NotFound when it is, but nothing is there."""


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    description: str
    arguments: tuple[PromptArgument, ...]
    render: Callable[[Call, Mapping[str, str]], Awaitable[str]]


@dataclass(slots=True, kw_only=True)
class Toolset:
    """One contract: its tools, its resources and prompts, and its way of saying no."""

    name: str
    voice: Voice
    flat: bool = False
    resources: Resources | None = None
    cancel: Callable[[Call, str], Awaitable[Answered]] | None = None
    """What `tools/cancel` does with a task of this contract."""
    tools: list[Tool] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)

    def tool(
        self,
        name: str,
        *,
        rate: Rate = Rate.QUERY,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool | None = None,
        open_world: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Register a function: its typed parameters are the arguments, its docstring is the description."""

        def register(handler: Handler) -> Handler:
            self.tools.append(
                Tool(
                    name=name, toolset=self.name, description=" ".join((handler.__doc__ or "").split()),
                    handler=handler, voice=self.voice, rate=rate, read_only=read_only, destructive=destructive,
                    open_world=open_world, flat=self.flat, idempotent=read_only if idempotent is None else idempotent,
                )
            )  # fmt: skip
            return handler

        return register


@dataclass(frozen=True, slots=True)
class View:
    """What one request sees of all that is registered."""

    toolsets: tuple[str, ...]
    read_only: bool = False


class Registry:
    """The toolsets of one server, in a fixed order."""

    def __init__(self, toolsets: Sequence[Toolset]) -> None:
        self.toolsets = {toolset.name: toolset for toolset in toolsets}
        self.by_name: dict[str, Tool] = {tool.name: tool for toolset in toolsets for tool in toolset.tools}
        if len(self.by_name) != sum(len(toolset.tools) for toolset in toolsets):
            raise ValueError("two tools share one name")
        self._listings: dict[View, list[Json]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.toolsets)

    def seen(self, view: View) -> Iterator[Toolset]:
        """The toolsets of a view, in the order in which they were registered."""
        return (toolset for name, toolset in self.toolsets.items() if name in view.toolsets)

    def tools(self, view: View) -> list[Tool]:
        return [
            tool for toolset in self.seen(view) for tool in toolset.tools if tool.read_only or not view.read_only
        ]  # fmt: skip

    def tool(self, name: str, view: View) -> Tool | None:
        tool = self.by_name.get(name)
        if tool is None or tool.toolset not in view.toolsets or (view.read_only and not tool.read_only):
            return None
        return tool

    def listing(self, view: View) -> list[Json]:
        """The tools of a view as clients see them."""
        if view not in self._listings:
            self._listings[view] = [tool.listing for tool in self.tools(view)]
        return self._listings[view]


def nearest(kind: type[KnowledgeError], table: Mapping[type[KnowledgeError], Saying]) -> Saying:
    """A contract's word for an error: that of the nearest class in its table."""
    return next(table[ancestor] for ancestor in _lineage(kind) if ancestor in table)


def _lineage(kind: type[KnowledgeError]) -> Iterator[type[KnowledgeError]]:
    return cast(Iterator[type[KnowledgeError]], iter(cast(Any, kind.__mro__)))
