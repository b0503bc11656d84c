"""Base classes and parsers for request bodies, form fields and list queries."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from knowledge.errors import InvalidParameter

Reference: TypeAlias = int | str
BodyUuid: TypeAlias = Annotated[UUID, Field(strict=False)]
"""A UUID as a string in a strict body."""
MAX_OFFSET = 10**9
"""Keeps page * per_page within 64 bits."""
LISTING_DEFAULTS = {"page": "1", "per_page": "50", "sort": "created_at", "order": "desc"}
"""Query values of a list that are the defaults."""


class Body(BaseModel):
    """A request body without unknown fields or type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Listing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    page: int = Field(1, ge=1, le=MAX_OFFSET)
    per_page: int = Field(50, ge=1, le=200)


def omit_defaults(fields: Mapping[str, str | None]) -> dict[str, str]:
    """Return the query of a list without empty and default values."""
    return {name: value for name, value in fields.items() if value is not None and LISTING_DEFAULTS.get(name) != value}


def check_json(value: object) -> object:
    """Reject metadata that cannot be serialized as JSON: NaN, infinity and lone surrogates."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("contains a value that cannot be represented in JSON") from error
    return value


Metadata = Annotated[dict[str, JsonValue], BeforeValidator(check_json)]


def dump_form_tags(tags: list[str]) -> list[str] | None:
    """Return tags as repeated form fields, or as one JSON list if a tag would be split or trimmed."""
    if not tags:
        return None
    return tags if parse_form_tags(tags) == tags else [json.dumps(tags, ensure_ascii=False)]


def parse_form_tags(values: list[str]) -> list[str]:
    """Parse tags from repeated form fields, one comma-separated field, or a JSON list."""
    if len(values) == 1 and values[0].lstrip().startswith("["):
        return _parse_json_list(values[0])
    parts = values[0].split(",") if len(values) == 1 else values
    return [part.strip() for part in parts if part.strip()]


def parse_form_metadata(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            "'metadata' is not valid JSON", hint='Send an object, for example {"author": "Ada"}.', parameter="metadata"
        ) from error
    return value


def _parse_json_list(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise InvalidParameter("'tags' is not a list of strings", hint='Send a,b or ["a", "b"].', parameter="tags")
    return value
