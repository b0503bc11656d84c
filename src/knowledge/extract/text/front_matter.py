"""The block of YAML or TOML that opens many Markdown files, read into facts."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from datetime import date, datetime, time

import yaml

from knowledge.model import Json, JsonValue

LARGEST = 64 << 10
FENCED = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\n(.*?\n)?(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    title: str | None = None
    author: str | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    length: int = 0
    """How many characters it takes at the start of the text."""


class _Loader(yaml.SafeLoader):
    """Aliases let a few lines of YAML stand for gigabytes, and front matter has no use for them."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


def read(text: str) -> FrontMatter:
    found = FENCED.match(text[:LARGEST])
    if not found:
        return FrontMatter()
    values = _values(found[1], found[2] or "")
    return _facts(values, found.end()) if values is not None else FrontMatter()


def _values(fence: str, body: str) -> Json | None:
    """Its keys and values, or None where it is no front matter after all but a text between two rules."""
    try:
        values = yaml.load(body, _Loader) if fence == "---" else tomllib.loads(body)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, RecursionError):
        return None
    if values is None:
        return {}
    return {str(key): as_json(value) for key, value in values.items()} if isinstance(values, dict) else None


def as_json(value: object, depth: int = 4) -> JsonValue:
    """What YAML and TOML know and JSON does not becomes text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple) and depth:
        return [as_json(item, depth - 1) for item in value]
    if isinstance(value, dict) and depth:
        return {str(key): as_json(item, depth - 1) for key, item in value.items()}
    return str(value)[:200]


def _facts(values: Json, length: int) -> FrontMatter:
    lowered: Json = {key.lower(): value for key, value in values.items()}
    tags = [tag for key in ("tags", "tag", "keywords", "categories", "category") for tag in _names(lowered.get(key))]
    taken = {"title", "author", "authors", "language", "lang", "tags", "tag"}
    metadata: Json = {key: value for key, value in lowered.items() if key not in taken}
    if "date" in metadata:
        metadata["created"] = metadata.pop("date")
    return FrontMatter(
        title=_name(lowered.get("title")),
        author=", ".join(_names(lowered.get("author") or lowered.get("authors"))) or None,
        language=_name(lowered.get("language") or lowered.get("lang")),
        tags=tuple(dict.fromkeys(tags)),
        metadata=metadata,
        length=length,
    )


def _name(value: JsonValue) -> str | None:
    return str(value).strip() or None if isinstance(value, str | int | float) else None


def _names(value: JsonValue) -> list[str]:
    """Tags and authors are written as a list, as a list of mappings with a name, or as one text with commas."""
    if isinstance(value, str):
        return [part.strip() for part in re.split("[,;]", value) if part.strip()]
    if isinstance(value, dict):
        return _names(value.get("name"))
    if isinstance(value, list):
        return [name for item in value for name in ([item.strip()] if isinstance(item, str) else _names(item)) if name]
    return [str(value)] if isinstance(value, int) else []
