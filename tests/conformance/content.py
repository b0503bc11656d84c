"""The tools, resources and prompts that the official conformance suite expects by name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

Context: TypeAlias = ServerRequestContext[Any, Any]
Schema: TypeAlias = dict[str, Any]

EMPTY_SCHEMA: Schema = {"type": "object", "properties": {}}
PIXEL_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENT_WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STATIC_TEXT = "This is the content of the static text resource."

RICH_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

SCHEMAS: dict[str, Schema] = {
    **dict.fromkeys(
        [
            "test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource",
            "test_multiple_content_types", "test_tool_with_logging", "test_logging_tool", "test_tool_with_progress",
            "test_error_handling", "test_missing_capability",
        ],
        EMPTY_SCHEMA,
    ),
    "json_schema_2020_12_tool": RICH_SCHEMA,
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}  # fmt: skip


def make_text(text: str) -> types.TextContent:
    return types.TextContent(text=text)


def make_result(*content: Any, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=list(content), is_error=failed)


def make_embedded_resource(
    uri: str, mime_type: str = "text/plain", text: str = "An embedded resource."
) -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def make_image() -> types.ImageContent:
    return types.ImageContent(data=PIXEL_PNG, mime_type="image/png")


async def run_logging_tool(context: Context) -> types.CallToolResult:
    import warnings

    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        with warnings.catch_warnings():  # the suite uses a feature that the newest revision deprecates
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            await context.session.send_log_message(level="info", data=text, related_request_id=context.request_id)
    return make_result(make_text("done"))


async def run_progress_tool(context: Context) -> types.CallToolResult:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"Completed step {done} of 100")
    return make_result(make_text("done"))


async def run_capability_tool(context: Context) -> types.CallToolResult:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "sampling capability required",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return make_result(make_text("ok"))


async def make_text_result(text: str, *more: Any, failed: bool = False) -> types.CallToolResult:
    return make_result(*([make_text(text)] if text else []), *more, failed=failed)


TOOLS: dict[str, Callable[[Context], Awaitable[types.CallToolResult]]] = {
    "test_simple_text": lambda _: make_text_result("This is a simple text response for testing."),
    "test_image_content": lambda _: make_text_result("", make_image()),
    "test_audio_content": lambda _: make_text_result("", types.AudioContent(data=SILENT_WAV, mime_type="audio/wav")),
    "test_embedded_resource": lambda _: make_text_result("", make_embedded_resource("test://embedded-resource")),
    "test_multiple_content_types": lambda _: make_text_result(
        "Multiple content types test:",
        make_image(),
        make_embedded_resource("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
    ),
    "test_tool_with_logging": run_logging_tool,
    "test_logging_tool": run_logging_tool,
    "test_tool_with_progress": run_progress_tool,
    "test_error_handling": lambda _: make_text_result(
        "This tool intentionally returns an error for testing", failed=True
    ),
    "test_missing_capability": run_capability_tool,
    "json_schema_2020_12_tool": lambda _: make_text_result("ok"),
    "test_x_mcp_header": lambda _: make_text_result("ok"),
}

RESOURCES = [
    types.Resource(uri="test://static-text", name="text", mime_type="text/plain"),
    types.Resource(uri="test://static-binary", name="binary", mime_type="image/png"),
    types.Resource(uri="test://watched-resource", name="watched", mime_type="text/plain"),
]
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data", name="template", mime_type="application/json"
)


def read_resource(uri: str) -> types.ReadResourceResult | None:
    """Return a resource of the suite; None for any other URI."""
    if uri == "test://static-binary":
        blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL_PNG)
        return types.ReadResourceResult(contents=[blob])
    if uri in ("test://static-text", "test://watched-resource"):
        text = types.TextResourceContents(uri=uri, mime_type="text/plain", text=STATIC_TEXT)
        return types.ReadResourceResult(contents=[text])
    if uri.startswith("test://template/"):
        number = uri.split("/")[3]
        data = json.dumps({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        found = types.TextResourceContents(uri=uri, mime_type="application/json", text=data)
        return types.ReadResourceResult(contents=[found])
    return None


def _make_argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=name, required=True)


PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="Simple"),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="Arguments",
        arguments=[_make_argument("arg1"), _make_argument("arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource", description="Resource", arguments=[_make_argument("resourceUri")]
    ),
    types.Prompt(name="test_prompt_with_image", description="Image"),
]


def get_prompt(name: str, arguments: dict[str, str]) -> types.GetPromptResult | None:
    """Return a prompt of the suite; None for any other name."""
    contents: dict[str, list[Any]] = {
        "test_simple_prompt": [make_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            make_text(f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            make_embedded_resource(arguments.get("resourceUri", "test://none")),
            make_text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [make_image(), make_text("Please analyze the image above.")],
    }
    if name not in contents:
        return None
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=part) for part in contents[name]])
