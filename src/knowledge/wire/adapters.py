"""Serialize and parse dataclasses with one cached pydantic TypeAdapter per type."""

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
    """Return a dataclass as JSON-compatible values: UUIDs, times and enums as strings, tuples as lists."""
    dumped: Json = adapter(type(value)).dump_python(value, mode="json", exclude_none=exclude_none)
    return dumped


def dump_json(value: object) -> bytes:
    """Serialize a dataclass to UTF-8 JSON; lone surrogates become question marks."""
    try:
        return adapter(type(value)).dump_json(value)
    except PydanticSerializationError:
        return json.dumps(dump(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def load(shape: type[T], data: object) -> T:
    """Parse decoded JSON into a type; raises ValueError if it does not match."""
    return adapter(shape).validate_python(data)


def load_json(shape: type[T], data: bytes) -> T:
    """Parse JSON into a type; raises ValueError if it does not match."""
    return adapter(shape).validate_json(data)


def json_schema(shape: type, ref_template: str) -> dict[str, Any]:
    """Return the JSON schema of a type for the OpenAPI document."""
    return adapter(shape).json_schema(mode="serialization", ref_template=ref_template)
