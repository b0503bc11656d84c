"""Markdown: passed on as it is; its front matter becomes facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.extract.base import Extracted, Facts, Source
from knowledge.extract.charset import text_blocks
from knowledge.extract.links import find_links
from knowledge.extract.text import front_matter
from knowledge.extract.text.plain import pages

FIRST_HEADING = re.compile(r"^#[ \t]+(.+)$|^([^\n#>*`|=-][^\n]*)\n=+[ \t]*$", re.MULTILINE)
EMPHASIS = re.compile(r"[*`]|(?<!\w)_|_(?!\w)")
FENCES = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def extract(source: Source, doc_type: str) -> Extracted:
    blocks = text_blocks(source)
    head = _head(blocks)
    matter = front_matter.read(head)
    body = head[matter.length :]
    facts = Facts(
        doc_type,
        title=matter.title or first_heading(body),
        author=matter.author,
        language=matter.language,
        tags=matter.tags,
        metadata=matter.metadata,
    )
    return Extracted(facts, pages(_all(body, blocks)))


def first_heading(text: str) -> str | None:
    """The first heading of the highest kind, as plain words."""
    found = FIRST_HEADING.search(FENCES.sub("", text[:20000]))
    if not found:
        return None
    return _plain_words(_without_closing_marks(found[1]) if found[1] else found[2]).strip() or None


def _without_closing_marks(heading: str) -> str:
    return heading.rstrip("#").rstrip(" \t") or heading[0]


def _plain_words(text: str) -> str:
    """Without emphasis, and links with their words only."""
    links = [(link.start, link.end, link.words) for link in find_links(text)]
    marks = [(mark.start(), mark.end(), "") for mark in EMPHASIS.finditer(text)]
    pieces, done = [], 0
    for start, end, words in sorted([*links, *marks]):
        if start < done:  # a mark inside a link stays
            continue
        is_image = bool(words or end - start > 1) and start > done and text[start - 1] == "!"
        pieces += [text[done : start - is_image], words]
        done = end
    return "".join(pieces) + text[done:]


def _head(blocks: Iterator[str]) -> str:
    head = ""
    for block in blocks:
        head += block.replace("\r\n", "\n")
        if len(head) >= front_matter.LARGEST:
            break
    return head


def _all(head: str, rest: Iterator[str]) -> Iterator[str]:
    yield head
    yield from rest
