"""Parse and format timestamps, references and collection tags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from uuid import UUID

from knowledge.errors import Invalid, InvalidParameter
from knowledge.model import CollectionRef, Ref

COLLECTION_TAG = "collection:"
"""Prefix of the tag that holds the collection of a document."""
MAX_ID = 2**63 - 1

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"[0-9]{1,19}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def dump_timestamp(timestamp: datetime) -> str:
    """Format a time as RFC 3339 in UTC, with Z."""
    return timestamp.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def dump_timestamp_or_none(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else dump_timestamp(timestamp)


def load_date(text: str, name: str, *, end: bool = False) -> datetime:
    """Parse one end of a date range; a date covers the whole day, a time without zone is UTC."""
    try:
        if _DAY.fullmatch(text):
            return datetime.combine(date.fromisoformat(text), time.max if end else time.min, UTC)
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidParameter(
            f"'{name}' is not a date: {text[:40]!r}",
            hint="Write it as 2026-01-31 or 2026-01-31T12:00:00Z.",
            parameter=name,
        ) from error


def load_ref(value: int | str, name: str = "id") -> Ref:
    """Parse the number or UUID of a document or job."""
    ref = _parse_number_or_uuid(value)
    if ref is None:
        raise InvalidParameter(
            f"'{name}' is neither a number nor a UUID: {str(value)[:40]!r}",
            hint="Use the id or uid of a previous response.",
            parameter=name,
        )
    return ref


def dump_ref(ref: Ref) -> int | str:
    return ref if isinstance(ref, int) else str(ref)


def load_collection_ref(value: int | str) -> CollectionRef:
    """Parse a collection number, UUID or name; `collection:NAME` is always a name."""
    if isinstance(value, str) and value.startswith(COLLECTION_TAG):
        return _check_collection_name(value.removeprefix(COLLECTION_TAG))
    ref = _parse_number_or_uuid(value)
    if ref is not None:
        return ref
    if isinstance(value, int):
        raise InvalidParameter(f"'collection' is not a valid number: {value}", parameter="collection")
    return _check_collection_name(value)


def dump_collection_ref(ref: CollectionRef) -> int | str:
    """Format a reference so that `load_collection_ref` returns the same one."""
    if isinstance(ref, int):
        return ref
    if isinstance(ref, UUID):
        return str(ref)
    ambiguous = _parse_number_or_uuid(ref) is not None or ref.startswith(COLLECTION_TAG)
    return COLLECTION_TAG + ref if ambiguous else ref


def _check_collection_name(name: str) -> str:
    if not name.strip():
        raise InvalidParameter("The collection name is empty", parameter="collection")
    return name


def _parse_number_or_uuid(value: int | str) -> Ref | None:
    text = str(value)
    if _NUMBER.fullmatch(text):
        number = int(text)
        return number if number <= MAX_ID else None
    return UUID(text) if _UUID.fullmatch(text) else None


def add_collection_tag(tags: Iterable[str], collection: str) -> tuple[str, ...]:
    """Return the tags with the collection as first tag."""
    return (COLLECTION_TAG + collection, *tags)


def remove_collection_tag(tags: Iterable[str], collection: str) -> tuple[str, ...]:
    return tuple(tag for tag in tags if tag != COLLECTION_TAG + collection)


def dump_collection(tags: Iterable[str], collection: CollectionRef) -> tuple[list[str], int | str | None]:
    """Return the tags and the collection field; a collection given by name becomes the first tag instead."""
    if isinstance(collection, str):
        return [*add_collection_tag(tags, collection)], None
    return [*tags], dump_collection_ref(collection)


def split_tags(tags: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split tags into free tags and collection names."""
    free, collections = [], []
    for tag in tags:
        if tag.startswith(COLLECTION_TAG):
            collections.append(_check_collection_name(tag.removeprefix(COLLECTION_TAG)))
        else:
            free.append(tag)
    return tuple(free), tuple(dict.fromkeys(collections))


def choose_collection(named: CollectionRef | None, tagged: tuple[str, ...]) -> CollectionRef | None:
    """Return the one collection named by the field and the tags of a request."""
    wanted = list(dict.fromkeys(([] if named is None else [named]) + list(tagged)))
    if len(wanted) > 1:
        raise Invalid(
            f"The request names several collections: {', '.join(str(ref) for ref in wanted)}",
            hint="Name one collection, as the field collection or as a tag collection:NAME.",
            collections=[str(ref) for ref in wanted],
        )
    return wanted[0] if wanted else None
