"""A tool's arguments: a model made from its typed signature, a plain schema, and refusals in words of our own."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails

from knowledge.errors import InvalidParameter, KnowledgeError, MissingParameter, UnknownParameter
from knowledge.model import Json, JsonValue

MAX_DEPTH = 64

JsonObject: TypeAlias = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "additionalProperties": True})]
"""Any JSON object, as an argument."""

Identifier: TypeAlias = Annotated[
    str, BeforeValidator(lambda value: str(value) if type(value) is int else value), Field(min_length=1, max_length=200)
]
"""An id as a contract shows it; the number is accepted as well as its text or a UUID."""


class Arguments(BaseModel):
    """Strict about types, and about names: an argument that nobody reads is a mistake somebody should hear of."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=False)


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def arguments_of(function: Callable[..., Any], name: str) -> type[Arguments]:
    """The model of everything that a tool's function takes after its Call."""
    # What a tool answers is Json, whose own name for its values the tool's file need not know.
    hints = get_type_hints(function, localns={"JsonValue": JsonValue}, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        hint = _integral(hints[parameter.name])
        required = parameter.default is inspect.Parameter.empty
        wire = parameter.name.rstrip("_")  # `async` is a word of Python's, so it is written async_
        alias = wire if wire != parameter.name else None
        fields[parameter.name] = (hint, Field(alias=alias) if required else Field(parameter.default, alias=alias))
    return create_model(name, __base__=Arguments, **fields)


def _integral(hint: Any) -> Any:
    """JSON does not tell 5.0 from 5, so neither do we where an integer is asked for."""
    parts = {hint, *get_args(hint)}
    for part in get_args(hint):
        parts.update(get_args(part))
    if int in parts and bool not in parts:
        return Annotated[hint, BeforeValidator(lambda value: int(value) if _is_whole(value) else value)]
    return hint


def _is_whole(value: object) -> bool:
    return isinstance(value, float) and value.is_integer()


def schema_of(model: type[Arguments]) -> Json:
    """The JSON schema that clients see: no titles, no references, no alternatives with null."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True, schema_generator=_Untitled)
    plain: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    for key in ("title", "description", "$defs"):
        plain.pop(key, None)
    plain.setdefault("properties", {})
    return plain


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        target = definitions[node["$ref"].rsplit("/", 1)[-1]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    arms = [arm for arm in node.get("anyOf", []) if arm.get("type") != "null"]
    if len(arms) == 1:
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _plain({**arms[0], **rest}, definitions)
    dropped = {key for key in ("title",) if isinstance(node.get(key), str)}
    if node.get("default", 0) is None:
        dropped.add("default")
    return {key: _plain(value, definitions) for key, value in node.items() if key not in dropped}


def understand(model: type[Arguments], given: Mapping[str, JsonValue] | None) -> dict[str, Any]:
    """The arguments as values by parameter name, or a refusal that names the argument at fault."""
    arguments = dict(given or {})
    for name, value in arguments.items():
        check_json(value, name)
    present = {name: value for name, value in arguments.items() if value is not None}
    try:
        return dict(model.model_validate(present).__dict__)
    except ValidationError as error:
        raise _refusal(model, error.errors(include_url=False, include_context=True)) from None


def names_of(model: type[Arguments]) -> list[JsonValue]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _refusal(model: type[Arguments], found: list[ErrorDetails]) -> KnowledgeError:
    order = {"missing": 0, "extra_forbidden": 1}
    first = min(found, key=lambda detail: order.get(detail["type"], 2))
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return MissingParameter(
            f"Missing required parameter: {path}", hint=f"Give a value for '{path}'.", parameter=path
        )
    if first["type"] == "extra_forbidden":
        valid = _siblings(model, first["loc"])
        listed = ", ".join(str(name) for name in valid) or "none"
        return UnknownParameter(
            f"Unknown parameter: {path}. Valid parameters: {listed}",
            hint="Leave it out, or use one of the valid names.", parameter=path, valid_parameters=valid,
        )  # fmt: skip
    return InvalidParameter(
        f"Invalid value for '{path}': {wording(first)}", hint=f"Correct '{path}' and call again.", parameter=path
    )


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> list[JsonValue]:
    """The names that would have been valid where an unknown one stood."""
    here: type[BaseModel] = model
    for part in location[:-1]:
        for name, field in here.model_fields.items():
            if part in (name, field.alias):
                here = next(_models(field.annotation), here)
    return [field.alias or name for name, field in here.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType, Annotated):
        for part in get_args(annotation):
            yield from _models(part)


KINDS = {
    "string_type": "a string", "int_type": "an integer", "int_from_float": "an integer", "float_type": "a number",
    "bool_type": "true or false", "dict_type": "an object", "model_type": "an object", "list_type": "an array",
    "finite_number": "a finite number",
}  # fmt: skip

BOUNDS = {
    "greater_than_equal": ("at least", "ge"), "less_than_equal": ("at most", "le"),
    "greater_than": ("more than", "gt"), "less_than": ("less than", "lt"),
}  # fmt: skip


def wording(detail: ErrorDetails) -> str:
    """What is wrong with one value, in our own words."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in KINDS:
        return f"must be {KINDS[kind]}"
    if kind in BOUNDS:
        words, key = BOUNDS[kind]
        return f"must be {words} {context[key]}"
    if kind in ("literal_error", "enum"):
        return f"must be one of {str(context['expected']).replace(' or ', ', ')}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind in ("string_too_long", "too_long"):
        return f"must not be longer than {context['max_length']}"
    if kind == "value_error":
        return str(context["error"])
    return "is not valid"


def check_json(value: JsonValue, name: str) -> None:
    """Refuse what JSON libraries let through but nothing further down can keep: halves of characters, NaN, abysses."""
    pending: list[tuple[JsonValue, int]] = [(name, 0), (value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidParameter(
                f"Invalid value for '{printable(name)}': nested too deeply", parameter=printable(name)
            )
        if isinstance(item, str):
            _check_text(item, name)
        elif isinstance(item, float) and not math.isfinite(item):
            raise InvalidParameter(f"Invalid value for '{printable(name)}': must be finite", parameter=printable(name))
        elif isinstance(item, dict):
            pending += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, list):
            pending += [(part, depth + 1) for part in item]


def _check_text(text: str, name: str) -> None:
    if text.isascii() and "\x00" not in text:
        return
    if "\x00" in text or printable(text) != text:
        shown = printable(name)
        raise InvalidParameter(f"Invalid value for '{shown}': not readable as Unicode text", parameter=shown)


def printable(text: str) -> str:
    """The text with what cannot be encoded replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?")
