"""Parse a page (Markdown with YAML front matter) and split it into sections."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from knowledge.errors import Damaged

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
UNCLOSED_FRONT_MATTER = re.compile(r"\A---[ \t]*\n[A-Za-z_-]+:(?:\s|\Z)")
TITLE = re.compile(r"^#[ \t]+(.(?:.*[^ \t#\n])?)[ \t#]*$", re.MULTILINE)
CODE_FENCE = re.compile(r"^ {0,3}(```|~~~)")
HEADING = re.compile(r"^##[ \t]+(.(?:.*[^ \t#\n])?)[ \t#]*$")
MIDDLE_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class LayerPage:
    path: str
    """Relative to the content folder, with slashes: `core/principles.md`."""
    title: str
    summary: str
    body: str
    """The Markdown without its front matter."""
    tasks: frozenset[str]
    """Task types from the front matter; empty if not declared."""
    languages: frozenset[str]
    """Programming languages from the front matter; empty for all languages."""
    priority: int
    size: int

    @property
    def layer(self) -> str:
        return self.path.partition("/")[0]

    @property
    def name(self) -> str:
        """Layer and topic, without the suffix."""
        return self.path.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Section:
    """Text under one second-level heading, including the heading; None for text before the first."""

    heading: str | None
    text: str


def parse_page(path: str, data: bytes) -> LayerPage:
    """Parse a page; raises Damaged with the reason if the file is invalid."""
    text = _decode_text(data)
    values, body = _split_front_matter(text)
    if not body.strip():
        raise Damaged("the page has no text", hint="Add text, or delete the file.")
    found = TITLE.search(body)
    return LayerPage(
        path=path,
        title=_to_line(values.get("title")) or (found[1] if found else _title_from_path(path)),
        summary=_to_line(values.get("summary")),
        body=body.strip() + "\n",
        tasks=_parse_names(values.get("tasks")),
        languages=_parse_names(values.get("languages")),
        priority=_parse_priority(values.get("priority")),
        size=len(data),
    )


def split_sections(page: LayerPage) -> tuple[Section, ...]:
    """Split a page at its second-level headings, without the title line."""
    found: list[tuple[str | None, list[str]]] = [(None, [])]
    fence = ""
    for line in page.body.splitlines():
        if mark := CODE_FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else HEADING.match(line)
        if heading:
            found.append((heading[1], [line]))
        elif fence or found[-1][0] is not None or line.strip() != f"# {page.title}":
            found[-1][1].append(line)
    texts = ((heading, "\n".join(lines).strip()) for heading, lines in found)
    return tuple(Section(heading, text) for heading, text in texts if text and text != f"## {heading}")


def _decode_text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Damaged(f"invalid UTF-8 at byte {error.start}", hint="Save the page as UTF-8.") from error
    if "\x00" in text:
        raise Damaged("the file contains a NUL byte", hint="Save the page as UTF-8.")
    return text.replace("\r\n", "\n")


def _split_front_matter(text: str) -> tuple[dict[str, object], str]:
    fenced = FRONT_MATTER.match(text)
    if fenced is None:
        if UNCLOSED_FRONT_MATTER.match(text):
            raise Damaged("the front matter is not closed", hint="Close it with a line '---'.")
        return {}, text
    try:
        values = yaml.safe_load(fenced[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        place = getattr(error, "problem_mark", None)
        where = f" in line {place.line + 2}" if place is not None else ""
        raise Damaged(f"the front matter is not valid YAML{where}", hint="Correct the front matter.") from error
    if values is None:
        values = {}
    if not isinstance(values, dict):  # two thematic breaks (---) with text between them
        return {}, text
    return {str(key).lower(): value for key, value in values.items()}, text[fenced.end() :]


def _to_line(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _parse_names(value: object) -> frozenset[str]:
    if isinstance(value, str):
        value = value.split(",")
    words = (_to_line(item).lower() for item in value) if isinstance(value, list) else ()
    return frozenset(word for word in words if word)


def _parse_priority(value: object) -> int:
    return min(max(value, 1), 9) if isinstance(value, int) else MIDDLE_PRIORITY


def _title_from_path(path: str) -> str:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return " ".join(re.split(r"[-_\s]+", stem)).strip().capitalize()
