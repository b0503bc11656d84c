"""What contracts call a format: one name where files have several suffixes, and the refusal that lists them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from knowledge.errors import UnsupportedFormat
from knowledge.extract.formats import supported
from knowledge.model import JsonValue

ALIASES = {"jpeg": "jpg", "htm": "html", "xhtml": "html", "tiff": "tif", "markdown": "md"}


def canonical(doc_type: str) -> str:
    """The name that contracts print: a photo.jpeg is a jpg."""
    return ALIASES.get(doc_type, doc_type)


def variants(name: str) -> tuple[str, ...]:
    """Every document type that goes by this name."""
    wanted = canonical(name)
    return (wanted, *(alias for alias, known in ALIASES.items() if known == wanted))


def known() -> list[str]:
    """Every format that is read, under the names that contracts print."""
    return sorted({canonical(suffix.removeprefix(".")) for suffix in supported()})


def suffix_of(filename: str) -> str:
    return PurePath(filename).suffix.lower().removeprefix(".")


def check_suffix(filename: str, first: Sequence[str]) -> str:
    """The suffix, or a refusal that names these formats first and then what else is read."""
    suffix = suffix_of(filename)
    if suffix and f".{suffix}" in supported():
        return suffix
    others = [name for name in known() if name not in first]
    listed: list[JsonValue] = [*first, *others]
    named = [name.upper() for name in first]
    raise UnsupportedFormat(
        f"Unsupported file format: .{suffix}. Use {', '.join(named[:-1])}, or {named[-1]}",
        hint=f"Also read: {', '.join(others)}.",
        supported_formats=listed,
    )
