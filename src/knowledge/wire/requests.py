"""What requests have in common: bodies, references, metadata, the fields of forms, and pages of lists."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, TypeAlias
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from knowledge.errors import InvalidParameter

Reference: TypeAlias = int | str
BodyUuid: TypeAlias = Annotated[UUID, Field(strict=False)]
"""A UUID in a strict body: JSON has it as text."""
MAX_OFFSET = 10**9
"""Pages beyond this are nobody's; it keeps page times per_page far inside 64 bit."""
LISTING_DEFAULTS = {"page": "1", "per_page": "50", "sort": "created_at", "order": "desc"}
"""What a list goes by when its query string is empty."""


class Body(BaseModel):
    """A request body: nothing unknown, nothing bent into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Listing(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    page: int = Field(1, ge=1, le=MAX_OFFSET)
    per_page: int = Field(50, ge=1, le=200)


def omit_defaults(given: Mapping[str, str | None]) -> dict[str, str]:
    """The query string of a list without what it would mean anyhow."""
    return {name: value for name, value in given.items() if value is not None and LISTING_DEFAULTS.get(name) != value}


def check_json(value: object) -> object:
    """Metadata that can be written down as JSON again; a number without end or half a surrogate pair cannot."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("holds a value that JSON cannot carry") from error
    return value


Metadata = Annotated[dict[str, JsonValue], BeforeValidator(check_json)]


def dump_form_tags(tags: list[str]) -> list[str] | None:
    """Repeated, or as one JSON list where a comma or a blank would be read as something else."""
    if not tags:
        return None
    return tags if parse_form_tags(tags) == tags else [json.dumps(tags, ensure_ascii=False)]


def parse_form_tags(values: list[str]) -> list[str]:
    """Tags of a form: repeated, one field with commas, or a JSON list."""
    if len(values) == 1 and values[0].lstrip().startswith("["):
        return _parse_json_list(values[0])
    parts = values[0].split(",") if len(values) == 1 else values
    return [part.strip() for part in parts if part.strip()]


def parse_form_metadata(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            "'metadata' is not JSON", hint='Send an object, such as {"author": "Ada"}.', parameter="metadata"
        ) from error
    return value


def _parse_json_list(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise InvalidParameter("'tags' is not a list of words", hint='Send a,b or ["a", "b"].', parameter="tags")
    return value
