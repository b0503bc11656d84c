"""What contracts call a format, and the refusal that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from knowledge.errors import UnsupportedFormat
from knowledge.extract.formats import BY_SUFFIX, FORMATS
from knowledge.model import JsonValue


def canonical(name: str) -> str:
    """The name that contracts print: a photo.jpeg is a jpg, an index.htm is html."""
    known = BY_SUFFIX.get(f".{name}")
    return known.doc_type if known else name


def known_formats(first: Sequence[str] = ()) -> list[str]:
    """Every format that is read, these before the others."""
    others = sorted({known.doc_type for known in FORMATS} - set(first))
    return [*first, *others]


def check_suffix(filename: str, first: Sequence[str]) -> str:
    """The format that a name promises, or a refusal that names these formats first and then what else is read."""
    suffix = PurePath(filename).suffix.lower()
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix].doc_type
    listed: list[JsonValue] = [*known_formats(first)]
    named = [name.upper() for name in first]
    raise UnsupportedFormat(
        f"Unsupported file format: {suffix or 'none'}. Use {', '.join(named[:-1])}, or {named[-1]}",
        hint=f"Also read: {', '.join(known_formats(first)[len(first) :])}.",
        supported_formats=listed,
    )
