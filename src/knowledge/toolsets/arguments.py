"""Makes the argument model and JSON schema of a tool from its signature, and validates arguments."""

from __future__ import annotations

import difflib
import inspect
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from knowledge.engine.api import find_doc_type, list_doc_types
from knowledge.errors import InvalidParameter, KnowledgeError, MissingParameter, UnknownParameter, UnsupportedFormat
from knowledge.model import Json, JsonValue
from knowledge.wire.errors import TOOL_MESSAGES, describe_problem


def normalize_format(name: str) -> str:
    """Return the canonical name of a format: jpeg becomes jpg, htm becomes html."""
    return find_doc_type(f".{name}") or name


def list_formats(first: Sequence[str] = ()) -> list[str]:
    """Return all supported formats, starting with the given ones."""
    others = sorted(list_doc_types() - set(first))
    return [*first, *others]


def check_suffix(filename: str, first: Sequence[str]) -> str:
    """Return the format of a file name; raise UnsupportedFormat, which lists the given formats first."""
    suffix = PurePath(filename).suffix.lower()
    known = find_doc_type(suffix)
    if known is not None:
        return known
    listed: list[JsonValue] = [*list_formats(first)]
    named = [name.upper() for name in first]
    raise UnsupportedFormat(
        f"Unsupported file format: {suffix or 'none'}. Use {', '.join(named[:-1])}, or {named[-1]}",
        hint=f"Also supported: {', '.join(list_formats(first)[len(first) :])}.",
        supported_formats=listed,
    )


MAX_JSON_DEPTH = 64

# Similarity by difflib: 'q' and 'query' are 0.33, 'question' and 'query' 0.46, 'limit' and 'title' 0.4.
MISSING_NAME_CUTOFF, VALID_NAME_CUTOFF = 0.3, 0.6
MAX_LISTED_NAMES = 10
"""Limit of unknown names in an error message."""

JsonObject: TypeAlias = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
"""An argument that takes any JSON object."""

# The common keys are listed because Gemini rejects an object without properties; every other key is accepted too.
Metadata: TypeAlias = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "Title of the document"},
                "author": {"type": "string", "description": "Author of the document"},
                "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags of the document"},
            },
        }
    ),
]
"""An argument that takes the metadata of a document: any JSON object."""

Identifier: TypeAlias = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else value), Field(min_length=1, max_length=200)
]
"""An id argument: a string (number or UUID) or an integer."""


TrustedOnly: TypeAlias = Annotated[bool, Field(description="Only documents of collections marked as trusted")]


class Arguments(BaseModel):
    """Base of argument models: strict types, and unknown names are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=False)


class _SchemaWithoutTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def make_arguments_model(function: Callable[..., Any], name: str) -> type[Arguments]:
    """Make the model of the parameters of a tool handler after its ToolCall."""
    # Json refers to JsonValue by name, which the module of the handler may not import.
    hints = get_type_hints(function, localns={"JsonValue": JsonValue}, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint = _accept_whole_floats(hints[parameter.name])
        required = parameter.default is inspect.Parameter.empty
        wire = parameter.name.rstrip("_")  # `async` is a Python keyword, so the parameter is async_
        alias = wire if wire != parameter.name else None
        fields[parameter.name] = (hint, Field(alias=alias) if required else Field(parameter.default, alias=alias))
    return create_model(name, __base__=Arguments, **fields)


def _accept_whole_floats(hint: Any) -> Any:
    """Let an integer parameter accept 5.0, because JSON does not distinguish 5.0 from 5."""
    parts = {hint, *get_args(hint)}
    for part in get_args(hint):
        parts.update(get_args(part))
    if int in parts and bool not in parts:
        return Annotated[hint, BeforeValidator(lambda value: int(value) if _is_whole(value) else value)]
    return hint


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def make_schema(model: type[Arguments]) -> Json:
    """Return the JSON schema for clients: only keywords that the converters of all model APIs accept.

    `additionalProperties` is left out because google-genai rejects it; the argument model rejects unknown names.
    """
    schema: dict[str, Any] = model.model_json_schema(by_alias=True, schema_generator=_SchemaWithoutTitles)
    plain: dict[str, Any] = _simplify_schema(schema, schema.get("$defs", {}))
    for key in ("title", "description", "$defs"):
        plain.pop(key, None)
    plain.setdefault("properties", {})
    return plain


def _simplify_schema(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_simplify_schema(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    arms = [arm for arm in node.get("anyOf", []) if arm.get("type") != "null"]
    if len(arms) == 1:
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _simplify_schema({**arms[0], **rest}, definitions)
    node = _replace_exclusive_bounds(node)
    dropped = {key for key in ("title",) if isinstance(node.get(key), str)}
    if node.get("type") == "object":
        dropped.add("additionalProperties")
    if node.get("default", 0) is None:
        dropped.add("default")
    return {key: _simplify_schema(value, definitions) for key, value in node.items() if key not in dropped}


def _replace_exclusive_bounds(node: Mapping[str, Any]) -> dict[str, Any]:
    """Replace exclusive bounds of integers by inclusive ones, and drop those of other numbers."""
    plain = dict(node)
    for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if not isinstance(node.get(exclusive), int | float):
            continue
        bound = plain.pop(exclusive)
        if node.get("type") == "integer":
            plain[inclusive] = bound + step
    return plain


def parse_arguments(model: type[Arguments], given: Mapping[str, JsonValue] | None) -> dict[str, Any]:
    """Validate arguments and return them by parameter name; raise an error that names the wrong one."""
    arguments = dict(given or {})
    for name, value in arguments.items():
        check_json(value, name)
    present = {name: value for name, value in arguments.items() if value is not None}
    try:
        return dict(model.model_validate(present).__dict__)
    except ValidationError as error:
        raise _argument_error(model, error.errors(include_url=False, include_context=True)) from None


def _argument_error(model: type[Arguments], problems: list[ErrorDetails]) -> KnowledgeError:
    order = {"missing": 0, "extra_forbidden": 1}
    first = min(problems, key=lambda detail: order.get(detail["type"], 2))
    if first["type"] in order:
        return _argument_name_error(model, first, problems)
    path = _format_path(first["loc"])
    message = f"Invalid value for '{path}': {describe_problem(first, TOOL_MESSAGES)}"
    return InvalidParameter(message, hint=f"Correct '{path}' and call again.", parameter=path)


def _argument_name_error(
    model: type[Arguments], first: ErrorDetails, problems: list[ErrorDetails]
) -> MissingParameter | UnknownParameter:
    """Return the error for missing and unknown names, with a suggestion for each unknown name that resembles one."""
    parent = first["loc"][:-1]
    beside = [problem for problem in problems if problem["loc"][:-1] == parent]
    missing = [str(problem["loc"][-1]) for problem in beside if problem["type"] == "missing"]
    unknown = [str(problem["loc"][-1]) for problem in beside if problem["type"] == "extra_forbidden"]
    del unknown[MAX_LISTED_NAMES:]
    valid = _list_valid_names(model, first["loc"])
    suggestions = {name: meant for name in unknown if (meant := suggest_name(name, missing, valid))}
    named = ", ".join(
        _format_path((*parent, name)) + (f" (did you mean '{suggestions[name]}'?)" if name in suggestions else "")
        for name in unknown
    )
    hint = " ".join(f"Did you mean '{meant}' instead of '{name}'?" for name, meant in suggestions.items())
    path = _format_path(first["loc"])
    if missing:
        message = f"Missing required parameter: {path}"
        hint = hint or f"Provide a value for '{path}'."
        if not unknown:
            return MissingParameter(message, hint=hint, parameter=path)
        return MissingParameter(
            f"{message}. Unknown parameter: {named}", hint=hint, parameter=path,
            unknown_parameters=[_format_path((*parent, name)) for name in unknown], valid_parameters=[*valid],
        )  # fmt: skip
    return UnknownParameter(
        f"Unknown parameter: {named}. Valid parameters: {', '.join(valid) or 'none'}",
        hint=hint or "Remove it or use one of the valid names.", parameter=path, valid_parameters=[*valid],
    )  # fmt: skip


def _format_path(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location)


def suggest_name(name: str, missing: Sequence[str], valid: Sequence[str]) -> str | None:
    """Return the valid name that an unknown one probably stands for; a missing one needs less resemblance."""
    for names, cutoff in ((missing, MISSING_NAME_CUTOFF), (valid, VALID_NAME_CUTOFF)):
        by_key = {_normalize_name(one): one for one in names}
        key = _normalize_name(name)
        if close := difflib.get_close_matches(key, by_key, n=1, cutoff=cutoff):
            return by_key[close[0]]
        words = [one for one in names if name.lower() in re.split("[-_]", one)]
        if len(words) == 1:
            return words[0]
    return None


def _normalize_name(name: str) -> str:
    return re.sub("[-_ ]", "", name).lower()


def _list_valid_names(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the valid parameter names at the location of an unknown one."""
    here: type[BaseModel] = model
    for part in location[:-1]:
        for name, field in here.model_fields.items():
            if part in (name, field.alias):
                here = next(_find_models(field.annotation), here)
    return [field.alias or name for name, field in here.model_fields.items()]


def _find_models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for part in get_args(annotation):
            yield from _find_models(part)


def check_json(value: JsonValue, name: str) -> None:
    """Reject values that JSON libraries accept but the store cannot: lone surrogates, NUL, NaN, deep nesting."""
    pending: list[tuple[JsonValue, int]] = [(name, 0), (value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_JSON_DEPTH:
            raise InvalidParameter(
                f"Invalid value for '{replace_unencodable(name)}': nested too deeply",
                parameter=replace_unencodable(name),
            )
        if isinstance(item, str):
            _check_text(item, name)
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidParameter(
                f"Invalid value for '{replace_unencodable(name)}': must be finite", parameter=replace_unencodable(name)
            )
        elif isinstance(item, dict):
            pending += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            pending += [(part, depth + 1) for part in item]


def _check_text(text: str, name: str) -> None:
    if text.isascii() and "\x00" not in text:
        return
    if "\x00" in text or replace_unencodable(text) != text:
        shown = replace_unencodable(name)
        raise InvalidParameter(f"Invalid value for '{shown}': not valid Unicode text", parameter=shown)


def replace_unencodable(text: str) -> str:
    """Replace lone surrogates and NUL by question marks."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")
