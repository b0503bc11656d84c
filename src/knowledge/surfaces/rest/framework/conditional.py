"""Conditional and range requests (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.IGNORECASE)
MAX_HEADER_CHARS = 8192


def format_etag(tag: str) -> str:
    return f'"{tag}"'


def matches_etag(header: str | None, tag: str) -> bool:
    """Return whether If-None-Match names this entity tag; a weak tag matches too (RFC 9110, 13.1.2)."""
    if header is None or len(header) > MAX_HEADER_CHARS:
        return False
    given = (each.strip().removeprefix("W/") for each in header.split(","))
    return header.strip() == "*" or format_etag(tag) in given


def parse_if_match(header: str | None) -> str | None:
    """Return the entity tag of If-Match; None if any matches. A weak tag never matches (RFC 9110, 13.1.1)."""
    given = "*" if header is None else header.strip()
    return None if given == "*" else given.removeprefix('"').removesuffix('"')


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    stop: int
    """One after the last byte."""


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def parse_range(header: str | None, size: int) -> ByteRange | None:
    """Return the range of a file that is asked for; None for the whole file, also if the header is not understood."""
    found = RANGE.fullmatch(header.strip()) if header is not None and len(header) <= MAX_HEADER_CHARS else None
    if found is None or found[1] == found[2] == "":
        return None
    if found[1] == "":  # the last bytes
        start, stop = max(0, size - int(found[2])), size
    else:
        start = int(found[1])
        stop = min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None
    if start >= size or start >= stop:
        raise RangeNotSatisfiable
    return ByteRange(start, stop)


def may_use_range(if_range: str | None, tag: str) -> bool:
    """Return whether the file is still the one of If-Range, which needs a strong entity tag; dates never match."""
    return if_range is None or if_range.strip() == format_etag(tag)
