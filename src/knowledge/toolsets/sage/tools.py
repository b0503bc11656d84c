"""Contract 003: layered knowledge for coding agents, within a budget of tokens and on time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from knowledge.errors import DeadlineExceeded, Invalid, InvalidParameter, KnowledgeError, NotFound
from knowledge.model import Json
from knowledge.toolsets.base import Call, Prompt, PromptArgument, Rate, Refused, Toolset, nearest
from knowledge.toolsets.sage.configuration import CAPABILITIES
from knowledge.toolsets.sage.resources import LayerResources
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.sage.task_weights import TASKS, Task

Layer: TypeAlias = Literal["core", "guidelines", "frameworks", "practices", "all"]

ERRORS: dict[type[KnowledgeError], str] = {
    KnowledgeError: "INTERNAL",
    Invalid: "INVALID_INPUT",
    NotFound: "NOT_FOUND",
    DeadlineExceeded: "TIMEOUT",
}


def refuse(error: KnowledgeError) -> Refused:
    """`error{code, message, details}`, and beside it what was ready when the time was up."""
    word = nearest(type(error), ERRORS)
    details: Json = {key: value for key, value in error.details.items() if key != "fallback"}
    if error.hint:
        details["hint"] = error.hint
    body: Json = {"error": {"code": word, "message": str(error), "details": details}}
    if "fallback" in error.details:
        body["fallback"] = error.details["fallback"]
    return Refused(body, code=word)


tools = Toolset(name="sage", voice=refuse, resources=LayerResources())


@tools.tool("sage_get_knowledge", read_only=True)
async def get_knowledge(
    call: Call,
    layer: Annotated[Layer, Field(description="Knowledge layer to retrieve")],
    topic: Annotated[
        str | None, Field(description="Specific topic within the layer", min_length=1, max_length=300)
    ] = None,
    timeout_ms: Annotated[int, Field(description="Timeout in milliseconds", ge=1, le=600_000)] = 2000,
) -> Json:
    """Retrieve knowledge from the knowledge base."""
    if topic is not None and not topic.strip():
        raise InvalidParameter("Invalid value for 'topic': must not be empty", parameter="topic")
    return await call.service(Sage).knowledge(layer, topic, timeout_ms)


@tools.tool("sage_search", read_only=True)
async def search(
    call: Call,
    query: Annotated[str, Field(description="Search query", min_length=1, max_length=500)],
    limit: Annotated[int, Field(description="Maximum number of results", ge=1, le=100)] = 10,
    layer: Annotated[Layer, Field(description="Layer to search in")] = "all",
) -> Json:
    """Search the knowledge base."""
    from knowledge.toolsets.sage import search as sage_search

    if not query.strip():
        raise InvalidParameter("Invalid value for 'query': must not be empty", parameter="query")
    return await sage_search.search(call.service(Sage), query, limit, layer)


@tools.tool("sage_get_context", read_only=True)
async def get_context(
    call: Call,
    task_type: Annotated[Task, Field(description="Type of task")],
    language: Annotated[str, Field(description="Programming language context", max_length=50)] = "python",
    token_budget: Annotated[int, Field(description="Maximum tokens for response", ge=1, le=100_000)] = 4000,
) -> Json:
    """Get task-specific context based on task type."""
    from knowledge.toolsets.sage import context as sage_context

    return await sage_context.context(call.service(Sage), task_type, language, token_budget)


@tools.tool("sage_info", read_only=True, rate=Rate.LIST)
async def info(call: Call) -> Json:
    """Get system information and status."""
    return await call.service(Sage).info()


async def task_prompt(call: Call, given: Mapping[str, str]) -> str:
    from knowledge.toolsets.sage import context as sage_context

    task = given.get("task_type", "").strip().lower()
    if task not in TASKS:
        raise InvalidParameter(
            f"Invalid value for 'task_type': must be one of {', '.join(TASKS)}", parameter="task_type"
        )
    return await sage_context.prompt(call.service(Sage), task, given.get("context", ""))


tools.prompts.append(
    Prompt(
        "sage_task_prompt",
        "Generate a task-specific system prompt.",
        (
            PromptArgument("task_type", f"Type of task: {', '.join(TASKS)}", required=True),
            PromptArgument("context", "Additional context"),
        ),
        task_prompt,
    )
)

NEEDS = {
    "sage_get_knowledge": "knowledge_retrieval",
    "sage_search": "search",
    "sage_get_context": "context_management",
    "sage_task_prompt": "context_management",
}
"""What a capability switches on; sage_info is always there."""


def with_capabilities(capabilities: Collection[str]) -> Toolset:
    """The toolset with only what the operator has switched on."""
    off = set(CAPABILITIES) - set(capabilities)
    return Toolset(
        name=tools.name,
        voice=tools.voice,
        resources=None if "knowledge_retrieval" in off else tools.resources,
        tools=[tool for tool in tools.tools if NEEDS.get(tool.name) not in off],
        prompts=[prompt for prompt in tools.prompts if NEEDS.get(prompt.name) not in off],
    )
