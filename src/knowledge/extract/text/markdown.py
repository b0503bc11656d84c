"""Markdown: reads the front matter and passes the text on; also finds links, images and headings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time
from itertools import chain

import yaml

from knowledge.extract.base import Extraction, Facts, Source
from knowledge.extract.charset import read_text_blocks
from knowledge.extract.text.plain import to_pages
from knowledge.model import Json, JsonValue

MAX_FRONT_MATTER_CHARS = 64 << 10
FRONT_MATTER = re.compile(r"\A\ufeff?(---|\+\+\+)[ \t]*\n(.*?\n)?(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)

FIRST_HEADING = re.compile(r"^#[ \t]+(.+)$|^([^\n#>*`|=-][^\n]*)\n=+[ \t]*$", re.MULTILINE)
EMPHASIS = re.compile(r"[*`]|(?<!\w)_|_(?!\w)")
FENCED_CODE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    title: str | None = None
    author: str | None = None
    language: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    length: int = 0
    """Characters of the front matter, fences included."""


class _AliasFreeLoader(yaml.SafeLoader):
    """YAML loader that rejects aliases, which expand exponentially (billion laughs)."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def read_front_matter(text: str) -> FrontMatter:
    found = FRONT_MATTER.match(text[:MAX_FRONT_MATTER_CHARS])
    if not found:
        return FrontMatter()
    values = _parse_values(found[1], found[2] or "")
    return _to_front_matter(values, found.end()) if values is not None else FrontMatter()


def _parse_values(fence: str, body: str) -> Json | None:
    """Parse the keys and values, or return None for a text between two horizontal rules."""
    try:
        values = yaml.load(body, _AliasFreeLoader) if fence == "---" else tomllib.loads(body)
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, RecursionError):
        return None
    if values is None:
        return {}
    return (
        {str(key): convert_front_matter(value) for key, value in values.items()} if isinstance(values, dict) else None
    )


def convert_front_matter(value: object, depth: int = 4) -> JsonValue:
    """Convert a YAML or TOML value to JSON; types that JSON lacks become strings."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list | tuple) and depth:
        return [convert_front_matter(item, depth - 1) for item in value]
    if isinstance(value, dict) and depth:
        return {str(key): convert_front_matter(item, depth - 1) for key, item in value.items()}
    return str(value)[:200]


def _to_front_matter(values: Json, length: int) -> FrontMatter:
    lowered: Json = {key.lower(): value for key, value in values.items()}
    tags = [tag for key in ("tags", "tag", "keywords", "categories", "category") for tag in _to_names(lowered.get(key))]
    taken = {"title", "author", "authors", "language", "lang", "tags", "tag"}
    metadata: Json = {key: value for key, value in lowered.items() if key not in taken}
    if "date" in metadata:
        metadata["created"] = metadata.pop("date")
    return FrontMatter(
        title=_to_text(lowered.get("title")),
        author=", ".join(_to_names(lowered.get("author") or lowered.get("authors"))) or None,
        language=_to_text(lowered.get("language") or lowered.get("lang")),
        tags=tuple(dict.fromkeys(tags)),
        metadata=metadata,
        length=length,
    )


def _to_text(value: JsonValue) -> str | None:
    return str(value).strip() or None if isinstance(value, str | int | float) else None


def _to_names(value: JsonValue) -> list[str]:
    """Return names from a list, a list of mappings with a name, or a comma-separated string."""
    if isinstance(value, str):
        return [part.strip() for part in re.split("[,;]", value) if part.strip()]
    if isinstance(value, dict):
        return _to_names(value.get("name"))
    if isinstance(value, list):
        return [
            name for item in value for name in ([item.strip()] if isinstance(item, str) else _to_names(item)) if name
        ]
    return [str(value)] if isinstance(value, int) else []


def extract(source: Source, doc_type: str) -> Extraction:
    blocks = read_text_blocks(source)
    head = _read_head(blocks)
    matter = read_front_matter(head)
    body = head[matter.length :]
    facts = Facts(
        doc_type,
        title=matter.title or find_first_heading(body),
        author=matter.author,
        language=matter.language,
        tags=matter.tags,
        metadata=matter.metadata,
    )
    return Extraction(facts, to_pages(chain([body], blocks)))


def find_first_heading(text: str) -> str | None:
    """Return the first level 1 heading as plain text."""
    found = FIRST_HEADING.search(FENCED_CODE.sub("", text[:20000]))
    if not found:
        return None
    return _strip_inline_markup(_strip_closing_hashes(found[1]) if found[1] else found[2]).strip() or None


def _strip_closing_hashes(heading: str) -> str:
    return heading.rstrip("#").rstrip(" \t") or heading[0]


def _strip_inline_markup(text: str) -> str:
    """Remove emphasis and replace links by their text."""
    links = [(link.start, link.end, link.text) for link in find_links(text)]
    marks = [(mark.start(), mark.end(), "") for mark in EMPHASIS.finditer(text)]
    pieces, done = [], 0
    for start, end, words in sorted([*links, *marks]):
        if start < done:  # a mark inside a link stays
            continue
        is_image = bool(words or end - start > 1) and start > done and text[start - 1] == "!"
        pieces += [text[done : start - is_image], words]
        done = end
    return "".join(pieces) + text[done:]


def _read_head(blocks: Iterator[str]) -> str:
    head = ""
    for block in blocks:
        head += block.replace("\r\n", "\n")
        if len(head) >= MAX_FRONT_MATTER_CHARS:
            break
    return head


@dataclass(frozen=True, slots=True)
class MarkdownLink:
    start: int
    end: int
    text: str


def find_links(text: str, opening: str = "[") -> Iterator[MarkdownLink]:
    """Find Markdown links in linear time; a regular expression is quadratic on many opening brackets (ReDoS)."""
    start = text.find(opening)
    while start >= 0:
        inside = start + len(opening)
        closing = text.find("]", inside)
        if closing < 0:
            return
        if not text.startswith("(", closing + 1):
            start = text.find(opening, closing)  # earlier opening brackets share this closing bracket
            continue
        end = text.find(")", closing + 2) + 1
        if not end:
            return
        yield MarkdownLink(start, end, text[inside:closing])
        start = text.find(opening, end)


def replace_images(text: str) -> str:
    """Replace each `![description](address)` by its description."""
    pieces, done = [], 0
    for image in find_links(text, "!["):
        pieces += [text[done : image.start], image.text]
        done = image.end
    return "".join(pieces) + text[done:]
