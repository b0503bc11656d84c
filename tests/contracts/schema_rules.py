"""Checks a tool against the documented rules of the model APIs and frameworks that its schema is converted for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from knowledge.model import Json

ANNOTATIONS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

GEMINI_KEYWORDS = frozenset(
    {
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
        "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
        "default", "items", "minimum", "maximum",
    }
)  # fmt: skip
"""Fields of `Schema`, https://ai.google.dev/api/caching#Schema."""

OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""https://platform.openai.com/docs/api-reference/chat/create#tools; LangChain and the AI SDK pass names unchanged."""
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
"""https://ai.google.dev/api/caching#FunctionDeclaration."""
ANTHROPIC_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names of properties that the Messages API accepts."""

OPENAI_MAX_DEPTH, OPENAI_MAX_PROPERTIES, OPENAI_MAX_ENUM = 10, 5000, 1000
OPENAI_MAX_CHARS = 120_000
"""Limits of strict mode, https://platform.openai.com/docs/guides/structured-outputs#supported-schemas."""
OPENAI_MAX_DESCRIPTION_CHARS = 1024

JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object")


def list_problems(tool: Json) -> list[str]:
    """Return the rules that an entry of tools/list breaks, as one sentence each."""
    return [f"{tool['name']}: {problem}" for problem in _find_problems(tool)]


def _find_problems(tool: Any) -> Iterator[str]:
    name, schema = tool["name"], tool["inputSchema"]
    yield from _find_listing_problems(tool)
    if not OPENAI_NAME.fullmatch(name):
        yield "OpenAI, LangChain and the AI SDK: the name must match [a-zA-Z0-9_-]{1,64}"
    if not GEMINI_NAME.fullmatch(name):
        yield "Gemini: the name must start with a letter or underscore and have at most 64 characters"
    if len(tool["description"]) > OPENAI_MAX_DESCRIPTION_CHARS:
        yield f"OpenAI: the description is longer than {OPENAI_MAX_DESCRIPTION_CHARS} characters"
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield "all: the root must be an object with properties"
        return
    nodes = list(_walk(schema, "", 0))
    for path, node, depth in nodes:
        yield from (f"{path or 'root'}: {problem}" for problem in _find_node_problems(node, depth))
    properties = [(path, node) for path, node, depth in nodes if depth and not path.endswith("[]")]
    if len(properties) > OPENAI_MAX_PROPERTIES:
        yield f"OpenAI strict: more than {OPENAI_MAX_PROPERTIES} properties"
    if sum(len(path.rpartition(".")[2]) for path, _ in properties) > OPENAI_MAX_CHARS:
        yield f"OpenAI strict: property names longer than {OPENAI_MAX_CHARS} characters together"


def _find_listing_problems(tool: Any) -> Iterator[str]:
    if not tool.get("description"):
        yield "all: no description"
    if not tool.get("title") or tool["title"] == tool["name"]:
        yield "MCP: no title for people"
    annotations = tool.get("annotations", {})
    if missing := [key for key in ANNOTATIONS if key not in annotations]:
        yield f"MCP: no annotation {', '.join(missing)}"
    if annotations.get("readOnlyHint") and annotations.get("destructiveHint"):
        yield "MCP: read-only and destructive"


def _find_node_problems(node: Any, depth: int) -> Iterator[str]:
    kind = node.get("type")
    if kind not in JSON_TYPES:
        yield f"Gemini and the AI SDK: type must be one type name, not {kind!r}"
    if unknown := sorted(set(node) - GEMINI_KEYWORDS):
        yield f"Gemini: {', '.join(unknown)} not supported"
    if "anyOf" in node:
        yield "OpenAI strict and Anthropic: anyOf where a plain type does"
    if kind == "object":
        yield from _find_object_problems(node, depth)
    if kind == "array" and not isinstance(node.get("items"), dict):
        yield "Gemini and OpenAI: an array needs items"
    values = node.get("enum")
    if values is not None and (kind != "string" or not all(isinstance(value, str) and value for value in values)):
        yield "Gemini: enum holds non-empty strings"
    if values is not None and len(values) > OPENAI_MAX_ENUM:
        yield f"OpenAI strict: more than {OPENAI_MAX_ENUM} values"
    if node.get("default", 0) is None:
        yield "Gemini and LangChain: a default of null is not of the type"
    if depth > OPENAI_MAX_DEPTH:
        yield f"OpenAI strict: nested deeper than {OPENAI_MAX_DEPTH}"


def _find_object_problems(node: Any, depth: int) -> Iterator[str]:
    properties = node.get("properties", {})
    if depth and not properties:
        yield "Gemini: an object below the root needs properties"
    if missing := [name for name in node.get("required", []) if name not in properties]:
        yield f"OpenAI and Gemini: required names {', '.join(missing)}, which are no properties"
    if wrong := [name for name in properties if not ANTHROPIC_PROPERTY.fullmatch(name)]:
        yield f"Anthropic: property names {', '.join(wrong)} do not match [a-zA-Z0-9_.-]{{1,64}}"
    if bare := [name for name, inner in properties.items() if not inner.get("description")]:
        yield f"all: no description of {', '.join(bare)}"


def _walk(node: Any, path: str, depth: int) -> Iterator[tuple[str, Any, int]]:
    yield path, node, depth
    for name, inner in node.get("properties", {}).items():
        yield from _walk(inner, f"{path}.{name}".lstrip("."), depth + 1)
    if isinstance(node.get("items"), dict):
        yield from _walk(node["items"], f"{path}[]", depth + 1)
