"""Generates the page of docs/reference about the REST API from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from knowledge.engine.api import Engine
from knowledge.surfaces.rest.app import make_rest_app
from knowledge.surfaces.rest.framework.openapi import COMMON_STATUSES, OpenApi


def render_rest_page(generated_note: str) -> str:
    no_engine = cast(Engine, None)  # no route is called
    api = make_rest_app(no_engine, engine_for=lambda _: no_engine).openapi()
    return "\n".join([*_render_head(generated_note), *_render_calls(api), *_render_shapes(api)])


def _render_head(generated_note: str) -> Iterator[str]:
    yield from ("# REST", "", generated_note, "")
    always = ", ".join(str(status) for status in COMMON_STATUSES)
    yield "A running server has the OpenAPI document at `/openapi.json` and a page at `/docs`. If `KB_API_KEY` is set,"
    yield "every call except health needs a key: `Authorization: Bearer KEY` or `X-API-Key: KEY`. [Errors](errors.md)"
    yield f"describes refused calls; every call may answer {always}. Unknown fields and parameters are refused by name."
    yield from ("`*` marks required fields.", "")
    yield "Browsers log in with `POST /api/v1/session` and send its cookie instead of a key; a key takes precedence."
    yield "With a cookie, only this server's own pages may change data, and it is not valid for MCP."
    yield ""


def _render_calls(api: OpenApi) -> Iterator[str]:
    for path, methods in api["paths"].items():
        for method, call in methods.items():
            yield from (f"## `{method.upper()} {path}`", "", call["description"], "")
            yield from _render_table("parameter", [_format_parameter(each) for each in call.get("parameters", [])])
            for kind, body in call.get("requestBody", {}).get("content", {}).items():
                yield from (f"Body, `{kind}`:", "", *_render_table("field", _list_fields(api, body["schema"])))
            yield from (_format_answer(call["responses"]), "")


def _format_parameter(given: OpenApi) -> str:
    return _format_row(given["name"], given["schema"], given.get("required", False), given.get("description"))


def _format_answer(responses: OpenApi) -> str:
    refused = [status for status in responses if int(status) >= 400 and int(status) not in COMMON_STATUSES]
    done = next((status, reply) for status, reply in responses.items() if int(status) < 300)
    shape = _format_content(done[1].get("content"))
    also = f" May also refuse with {', '.join(refused)}." if refused else ""
    return f"Answers {done[0]}: {shape}.{also}"


def _format_content(content: OpenApi | None) -> str:
    if content is None:
        return "nothing"
    if "text/event-stream" in content:
        return "a stream of events"
    schema = next(iter(content.values()))["schema"]
    return f"[{_get_schema_name(schema)}](#{_get_schema_name(schema).lower()})" if "$ref" in schema else "the bytes"


def _render_shapes(api: OpenApi) -> Iterator[str]:
    yield from ("# Answers", "")
    for name, schema in api["components"]["schemas"].items():
        if "enum" in schema:
            yield from (f"## {name}", "", f"One of {', '.join(schema['enum'])}.", "")
        elif "properties" in schema and not name.endswith("Body"):
            yield from (f"## {name}", "", *_render_table("field", _list_fields(api, schema, marked=False)))


def _list_fields(api: OpenApi, schema: OpenApi, *, marked: bool = True) -> list[str]:
    found = api["components"]["schemas"][_get_schema_name(schema)] if "$ref" in schema else schema
    required = found.get("required", []) if marked else []
    return [
        _format_row(name, field, name in required, field.get("description"))
        for name, field in found.get("properties", {}).items()
    ]


def _render_table(first: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from (f"| {first} | type | |", "|---|---|---|", *rows, "")


def _format_row(name: str, schema: OpenApi, required: bool, about: str | None) -> str:
    return (
        f"| `{name}`{' *' if required else ''} | {_format_type(schema)} | {(about or '').replace('|', chr(92) + '|')} |"
    )


def _format_type(schema: OpenApi) -> str:
    if "$ref" in schema:
        return _get_schema_name(schema)
    if "anyOf" in schema:
        return " or ".join(_format_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_format_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _get_schema_name(schema: OpenApi) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
