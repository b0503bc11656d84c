"""Contract 003: the tools, resources and prompt of the layered knowledge base."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote, unquote

from pydantic import Field

from knowledge.errors import DeadlineExceeded, Invalid, InvalidParameter, KnowledgeError, NotFound
from knowledge.model import Json, JsonValue
from knowledge.toolsets.answer_budget import encode_answer
from knowledge.toolsets.base import (
    Prompt,
    PromptArgument,
    RateClass,
    Refusal,
    Resource,
    ResourceTemplate,
    ResourceText,
    ToolCall,
    Toolset,
    find_nearest,
)
from knowledge.toolsets.sage.configuration import CAPABILITIES
from knowledge.toolsets.sage.context import TASKS, Task
from knowledge.toolsets.sage.library import ALL_LAYERS, LAYERS
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.timeouts import TOPIC, collect_within
from knowledge.toolsets.sage.topic_names import format_topic

LayerName: TypeAlias = Literal["core", "guidelines", "frameworks", "practices", "all"]

ERROR_CODES: dict[type[KnowledgeError], str] = {
    KnowledgeError: "INTERNAL",
    Invalid: "INVALID_INPUT",
    NotFound: "NOT_FOUND",
    DeadlineExceeded: "TIMEOUT",
}

CAPABILITY_BY_NAME = {
    "sage_get_knowledge": "knowledge_retrieval",
    "sage_search": "search",
    "sage_get_context": "context_management",
    "sage_task_prompt": "context_management",
}
"""Capability that enables a tool or prompt; sage_info is always enabled."""

CONTEXT_SHARE = 0.9
"""Share of the answer budget for a context that is chosen again because it did not fit."""

SCHEME = "knowledge://"
LAYER_DESCRIPTIONS = {
    "core": ("topic", "Core principles and philosophy"),
    "guidelines": ("category", "Coding and collaboration guidelines"),
    "frameworks": ("framework", "Conceptual frameworks and patterns"),
    "practices": ("category", "Best practices and engineering patterns"),
}


def refuse(error: KnowledgeError) -> Refusal:
    """Format an error as `error{code, message, details}`, with the partial result in `fallback`."""
    code = find_nearest(type(error), ERROR_CODES)
    details: Json = {key: value for key, value in error.details.items() if key != "fallback"}
    if error.hint:
        details["hint"] = error.hint
    body: Json = {"error": {"code": code, "message": str(error), "details": details}}
    if "fallback" in error.details:
        body["fallback"] = error.details["fallback"]
    return Refusal(body, code=code)


class LayerResources:
    templates: Sequence[ResourceTemplate] = tuple(
        ResourceTemplate(f"{SCHEME}{layer}/{{{variable}}}", f"{layer} by {variable}", description)
        for layer, (variable, description) in LAYER_DESCRIPTIONS.items()
    )

    async def list(self, call: ToolCall) -> list[Resource]:
        """List the four layers and all their pages."""
        sage = call.service(SageService)
        found = await collect_within(_list_paths(sage), sage.make_deadline(TOPIC).seconds_left())
        layers = [
            Resource(f"{SCHEME}{layer}", layer, description) for layer, (_, description) in LAYER_DESCRIPTIONS.items()
        ]
        return layers + [_make_resource(sage, path) for path in (found.items or (sage.library.known_paths() or (),))[0]]

    async def read(self, call: ToolCall, uri: str) -> ResourceText | None:
        if not uri.lower().startswith(SCHEME):
            return None
        layer, _, topic = unquote(uri[len(SCHEME) :]).partition("/")
        layer = layer.strip().lower()
        if layer not in (*LAYERS, ALL_LAYERS):
            known: list[JsonValue] = [*LAYERS]
            raise NotFound(
                f"Unknown layer '{layer[:50]}'; known layers: {', '.join(LAYERS)}", layer=layer[:50], layers=known
            )
        answer = await call.service(SageService).get_knowledge(layer, topic.strip("/ ") or None)
        meta: Json = {name: answer[name] for name in ("boundary",) if name in answer}
        return ResourceText(uri, str(answer["content"]), meta=meta)


def _list_paths(sage: SageService) -> Iterator[tuple[str, ...]]:
    yield sage.library.list_paths()


def _make_resource(sage: SageService, path: str) -> Resource:
    name = format_topic(path)
    page = sage.library.find_cached(path)
    about = (page.summary or page.title) if page is not None else name
    return Resource(SCHEME + quote(name), name, about)


tools = Toolset(
    name="sage",
    format_error=refuse,
    resources=LayerResources(),
    instructions=(
        "Principles, guidelines, frameworks and practices for coding agents. Start a task with sage_get_context and "
        "its task_type; use sage_search for a question and sage_get_knowledge to read a layer or topic in full."
    ),
)


@tools.tool("sage_get_knowledge", title="Read a knowledge layer", read_only=True)
async def get_knowledge(
    call: ToolCall,
    layer: Annotated[LayerName, Field(description="Knowledge layer to retrieve")],
    topic: Annotated[
        str | None, Field(description="Specific topic within the layer", min_length=1, max_length=300)
    ] = None,
    timeout_ms: Annotated[int, Field(description="Timeout in milliseconds", ge=1, le=600_000)] = 2000,
) -> Json:
    """Retrieve knowledge from the knowledge base."""
    if topic is not None and not topic.strip():
        raise InvalidParameter("Invalid value for 'topic': must not be empty", parameter="topic")
    return await call.service(SageService).get_knowledge(layer, topic, timeout_ms)


@tools.tool("sage_search", title="Search the knowledge layers", read_only=True)
async def search(
    call: ToolCall,
    query: Annotated[str, Field(description="Search query", min_length=1, max_length=500)],
    limit: Annotated[int, Field(description="Maximum number of results", ge=1, le=100)] = 10,
    layer: Annotated[LayerName, Field(description="Layer to search in")] = "all",
) -> Json:
    """Search the knowledge base."""
    from knowledge.toolsets.sage import search_tool as sage_search

    if not query.strip():
        raise InvalidParameter("Invalid value for 'query': must not be empty", parameter="query")
    return await sage_search.search_pages(call.service(SageService), query, limit, layer)


@tools.tool("sage_get_context", title="Get context for a task", read_only=True)
async def get_context(
    call: ToolCall,
    task_type: Annotated[Task, Field(description="Type of task")],
    language: Annotated[str, Field(description="Programming language context", max_length=50)] = "python",
    token_budget: Annotated[int, Field(description="Maximum tokens for response", ge=1, le=100_000)] = 4000,
) -> Json:
    """Get task-specific context based on task type."""
    from knowledge.toolsets.sage import context as sage_context

    sage, max_chars = call.service(SageService), call.limits.answer_chars
    answer = await sage_context.build_context(sage, task_type, language, token_budget)
    size, tokens = len(encode_answer(answer)), answer["token_count"]
    if size > max_chars and isinstance(tokens, int):  # whole sections in fewer tokens, instead of a cut text
        fitting = max(int(tokens * max_chars / size * CONTEXT_SHARE), 1)
        answer = await sage_context.build_context(sage, task_type, language, fitting)
    return answer


@tools.tool("sage_info", title="Show information about SAGE", read_only=True, rate=RateClass.LIST)
async def show_info(call: ToolCall) -> Json:
    """Get system information and status."""
    return await call.service(SageService).info()


async def render_task_prompt(call: ToolCall, arguments: Mapping[str, str]) -> str:
    from knowledge.toolsets.sage import context as sage_context

    task = arguments.get("task_type", "").strip().lower()
    if task not in TASKS:
        raise InvalidParameter(
            f"Invalid value for 'task_type': must be one of {', '.join(TASKS)}", parameter="task_type"
        )
    return await sage_context.build_prompt(call.service(SageService), task, arguments.get("context", ""))


tools.prompts.append(
    Prompt(
        "sage_task_prompt",
        "Generate a task-specific system prompt.",
        (
            PromptArgument("task_type", f"Type of task: {', '.join(TASKS)}", required=True),
            PromptArgument("context", "Additional context"),
        ),
        render_task_prompt,
    )
)


def select_capabilities(capabilities: Collection[str]) -> Toolset:
    """Return the toolset with the tools of the configured capabilities."""
    off = set(CAPABILITIES) - set(capabilities)
    return Toolset(
        name=tools.name,
        format_error=tools.format_error,
        instructions=tools.instructions,
        change_instructions=tools.change_instructions,
        resources=None if "knowledge_retrieval" in off else tools.resources,
        tools=[tool for tool in tools.tools if CAPABILITY_BY_NAME.get(tool.name) not in off],
        prompts=[prompt for prompt in tools.prompts if CAPABILITY_BY_NAME.get(prompt.name) not in off],
    )
