"""Plain text, logs and subtitles: passed on as they are, in any common encoding, however long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge.extract.base import Extracted, Facts, PageText, Source
from knowledge.extract.charset import text_blocks
from knowledge.extract.clean_text import in_pieces


def extract(source: Source, doc_type: str) -> Extracted:
    return Extracted(Facts(doc_type), pages(text_blocks(source)))


def pages(blocks: Iterable[str]) -> Iterator[PageText]:
    return (PageText(piece) for piece in in_pieces(blocks))


def lines(source: Source) -> Iterator[str]:
    """The lines of a text, without their ends, read as they are needed."""
    rest = ""
    for block in text_blocks(source):
        *whole, rest = (rest + block).replace("\r\n", "\n").split("\n")
        yield from whole
    if rest:
        yield rest
