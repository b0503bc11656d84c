"""The reference page of the REST API, made from its own OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from knowledge.engine.api import Engine
from knowledge.surfaces.rest.app import rest_app
from knowledge.surfaces.rest.framework.openapi import ALWAYS, OpenApi, describe


def rest_page(made: str) -> str:
    api = describe(rest_app(cast(Engine, None)))  # the routes are described, and none is called
    return "\n".join([*_head(made), *_calls(api), *_shapes(api)])


def _head(made: str) -> Iterator[str]:
    yield from ("# REST", "", made, "")
    always = ", ".join(str(status) for status in ALWAYS)
    yield "The same as a document for programs is at `/openapi.json`, and as a page at `/docs`. With `KB_API_KEY` set,"
    yield "every call but health needs it, as `Authorization: Bearer KEY` or `X-API-Key: KEY`. A refusal looks as"
    yield f"[errors](errors.md) says; every call may answer {always}. Unknown fields and parameters are refused by"
    yield from ("name. `*` marks what must be given.", "")


def _calls(api: OpenApi) -> Iterator[str]:
    for path, methods in api["paths"].items():
        for method, call in methods.items():
            yield from (f"## `{method.upper()} {path}`", "", call["description"], "")
            yield from _table("parameter", [_parameter(each) for each in call.get("parameters", [])])
            for kind, body in call.get("requestBody", {}).get("content", {}).items():
                yield from (f"Body, `{kind}`:", "", *_table("field", _fields(api, body["schema"])))
            yield from (_answer(call["responses"]), "")


def _parameter(given: OpenApi) -> str:
    return _row(given["name"], given["schema"], given.get("required", False), given.get("description"))


def _answer(responses: OpenApi) -> str:
    refused = [status for status in responses if int(status) >= 400 and int(status) not in ALWAYS]
    done = next((status, reply) for status, reply in responses.items() if int(status) < 300)
    content = next(iter(done[1]["content"].values()))["schema"]
    shape = f"[{_name(content)}](#{_name(content).lower()})" if "$ref" in content else "the bytes"
    also = f" May also refuse with {', '.join(refused)}." if refused else ""
    return f"Answers {done[0]}: {shape}.{also}"


def _shapes(api: OpenApi) -> Iterator[str]:
    yield from ("# Answers", "")
    for name, schema in api["components"]["schemas"].items():
        if name.endswith(("Shape", "Facts")):
            yield from (f"## {name}", "", *_table("field", _fields(api, schema, marked=False)))


def _fields(api: OpenApi, schema: OpenApi, *, marked: bool = True) -> list[str]:
    found = api["components"]["schemas"][_name(schema)] if "$ref" in schema else schema
    required = found.get("required", []) if marked else []
    return [
        _row(name, field, name in required, field.get("description"))
        for name, field in found.get("properties", {}).items()
    ]


def _table(first: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield from (f"| {first} | type | |", "|---|---|---|", *rows, "")


def _row(name: str, schema: OpenApi, required: bool, about: str | None) -> str:
    return f"| `{name}`{' *' if required else ''} | {_type(schema)} | {(about or '').replace('|', chr(92) + '|')} |"


def _type(schema: OpenApi) -> str:
    if "$ref" in schema:
        return _name(schema)
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _name(schema: OpenApi) -> str:
    return str(schema["$ref"]).rpartition("/")[2]
