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
from knowledge.model import Caller, Json, JsonValue, ReportProgress
from knowledge.toolsets.arguments import Arguments, make_arguments_model, make_schema, parse_arguments
from knowledge.toolsets.file_access import AllowedFolders

log = logging.getLogger(__name__)

Service = TypeVar("Service")
Saying = TypeVar("Saying")


class RateClass(StrEnum):
    """Which allowance a call draws on."""

    QUERY = "query"
    LIST = "list"
    RESOURCE = "resource"
    UPLOAD = "upload"
    MANAGEMENT = "management"
    AUTHENTICATION = "authentication"


def ignore_progress(step: str, done: int, total: int) -> None:
    """A report that nobody asked for."""


def ignore_job(job: UUID) -> None:
    """A connection that cannot be told anything later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """What the operator allows a call."""

    max_file_bytes: int = 100 << 20
    wait_s: float = 50.0
    """How long a call waits for its job before it answers without."""
    folders: AllowedFolders = field(default_factory=AllowedFolders)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call on its way: who asks, through which engine, and how to tell them about progress."""

    engine: Engine
    caller: Caller = field(default_factory=Caller)
    limits: CallLimits = field(default_factory=CallLimits)
    report: ReportProgress = ignore_progress
    follow: Callable[[UUID], None] = ignore_job
    """Tell the connection about a job's progress after this call has been answered, where it stays open."""
    services: Mapping[type[object], object] = field(default_factory=dict)

    def service(self, kind: type[Service]) -> Service:
        """Something that a toolset keeps for the life of the server, such as staged uploads."""
        return cast(Service, self.services[kind])


@dataclass(frozen=True, slots=True)
class Refusal:
    """A contract's own way of saying no."""

    body: Json
    code: str = "error"
    """What `X-MCP-Error-Code` says."""
    status: int | None = None
    """Set where the contract refuses on the JSON-RPC plane: the code of the error and a plain caller's HTTP status."""


ToolResult: TypeAlias = Json | Refusal
Handler: TypeAlias = Callable[..., Awaitable[ToolResult]]
ErrorFormatter: TypeAlias = Callable[[KnowledgeError], Refusal]
"""How a contract words an error."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Its arguments and their schema are made from the handler when somebody asks, so that a start need not wait."""

    name: str
    toolset: str
    description: str
    handler: Handler
    format_error: ErrorFormatter
    rate: RateClass
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    flat: bool = False
    """Plain JSON-RPC callers get the fields at the top of the result too."""

    @cached_property
    def arguments(self) -> type[Arguments]:
        return make_arguments_model(self.handler, self.name)

    @cached_property
    def schema(self) -> Json:
        return make_schema(self.arguments)

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

    async def run(self, call: ToolCall, arguments: Mapping[str, JsonValue] | None) -> ToolResult:
        """Answer or refuse; only cancellation passes through."""
        try:
            return await self.handler(call, **parse_arguments(self.arguments, arguments))
        except KnowledgeError as error:
            return self.format_error(error)
        except Exception:
            log.exception("%s failed", self.name)
            return self.format_error(Internal(f"{self.name} failed because of a fault in the server"))


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


class ResourceProvider(Protocol):
    """What a contract lets clients read beside its tools."""

    templates: Sequence[ResourceTemplate]

    async def list(self, call: ToolCall) -> list[Resource]: ...

    async def read(self, call: ToolCall, uri: str) -> ResourceText | None:
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
    render: Callable[[ToolCall, Mapping[str, str]], Awaitable[str]]


@dataclass(slots=True, kw_only=True)
class Toolset:
    """One contract: its tools, its resources and prompts, and its way of saying no."""

    name: str
    format_error: ErrorFormatter
    flat: bool = False
    resources: ResourceProvider | None = None
    cancel: Callable[[ToolCall, str], Awaitable[ToolResult]] | None = None
    """What `tools/cancel` does with a task of this contract."""
    tools: list[Tool] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)

    def tool(
        self,
        name: str,
        *,
        rate: RateClass = RateClass.QUERY,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool | None = None,
        open_world: bool = False,
    ) -> Callable[[Handler], Handler]:
        """Register a function: its typed parameters are the arguments, its docstring is the description."""

        def register(handler: Handler) -> Handler:
            self.tools.append(
                Tool(
                    name=name,
                    toolset=self.name,
                    description=" ".join((handler.__doc__ or "").split()),
                    handler=handler,
                    format_error=self.format_error,
                    rate=rate,
                    read_only=read_only,
                    destructive=destructive,
                    open_world=open_world,
                    flat=self.flat,
                    idempotent=read_only if idempotent is None else idempotent,
                )
            )
            return handler

        return register


@dataclass(frozen=True, slots=True)
class ToolsetView:
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
        self._listings: dict[ToolsetView, list[Json]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.toolsets)

    def select_toolsets(self, view: ToolsetView) -> Iterator[Toolset]:
        """The toolsets of a view, in the order in which they were registered."""
        return (toolset for name, toolset in self.toolsets.items() if name in view.toolsets)

    def list_tools(self, view: ToolsetView) -> list[Tool]:
        return [
            tool
            for toolset in self.select_toolsets(view)
            for tool in toolset.tools
            if tool.read_only or not view.read_only
        ]

    def find_tool(self, name: str, view: ToolsetView) -> Tool | None:
        tool = self.by_name.get(name)
        if tool is None or tool.toolset not in view.toolsets or (view.read_only and not tool.read_only):
            return None
        return tool

    def list_schemas(self, view: ToolsetView) -> list[Json]:
        """The tools of a view as clients see them."""
        if view not in self._listings:
            self._listings[view] = [tool.listing for tool in self.list_tools(view)]
        return self._listings[view]


def find_nearest(kind: type[KnowledgeError], table: Mapping[type[KnowledgeError], Saying]) -> Saying:
    """A contract's word for an error: that of the nearest class in its table."""
    return next(table[ancestor] for ancestor in _list_ancestors(kind) if ancestor in table)


def _list_ancestors(kind: type[KnowledgeError]) -> Iterator[type[KnowledgeError]]:
    return cast(Iterator[type[KnowledgeError]], iter(cast(Any, kind.__mro__)))
