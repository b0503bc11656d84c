"""Markdown: passed on as it is; its front matter becomes facts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.extract import front_matter
from knowledge.extract.base import Extracted, Facts, Source
from knowledge.extract.charset import text_blocks
from knowledge.extract.plain import pages

FIRST_HEADING = re.compile(r"^#[ \t]+(.+?)[ \t]*#*$|^([^\n#>*`|=-][^\n]*)\n=+[ \t]*$", re.MULTILINE)
EMPHASIS = re.compile(r"[*`]|(?<!\w)_|_(?!\w)|!?\[([^\]]*)\]\([^)]*\)")
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
    return EMPHASIS.sub(lambda match: match[1] or "", found[1] or found[2]).strip() or None


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
