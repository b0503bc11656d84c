"""JSON from values and values from JSON: one pydantic TypeAdapter for each type, built when it is first used."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from knowledge.model import Json

T = TypeVar("T")


_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def adapter(shape: type[T]) -> TypeAdapter[T]:
    known = _ADAPTERS.get(shape)
    if known is None:
        known = _ADAPTERS[shape] = TypeAdapter(shape)
    return known


def dump(value: object, *, exclude_none: bool = False) -> Json:
    """A dataclass as what JSON can carry: UUIDs, times and enums as text, tuples as lists."""
    dumped: Json = adapter(type(value)).dump_python(value, mode="json", exclude_none=exclude_none)
    return dumped


def dump_json(value: object) -> bytes:
    """A dataclass as JSON in UTF-8; a lone surrogate, which UTF-8 cannot carry, becomes a question mark."""
    try:
        return adapter(type(value)).dump_json(value)
    except PydanticSerializationError:
        return json.dumps(dump(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def load(shape: type[T], data: object) -> T:
    """A value of that type from what JSON held; anything else is a ValueError."""
    return adapter(shape).validate_python(data)


def load_json(shape: type[T], data: bytes) -> T:
    """A value of that type from JSON; anything else is a ValueError."""
    return adapter(shape).validate_json(data)


def json_schema(shape: type, ref_template: str) -> dict[str, Any]:
    """How the JSON of a type looks, for the OpenAPI document."""
    return adapter(shape).json_schema(mode="serialization", ref_template=ref_template)
