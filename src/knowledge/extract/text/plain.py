"""Plain text, logs and subtitles, passed on unchanged block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from knowledge.extract.base import Extraction, Facts, PageText, Source
from knowledge.extract.charset import read_text_blocks
from knowledge.extract.clean_text import regroup_blocks


def extract(source: Source, doc_type: str) -> Extraction:
    return Extraction(Facts(doc_type), to_pages(read_text_blocks(source)))


def to_pages(blocks: Iterable[str]) -> Iterator[PageText]:
    return (PageText(piece) for piece in regroup_blocks(blocks))


def read_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a text lazily, without line ends."""
    rest = ""
    for block in read_text_blocks(source):
        *whole, rest = (rest + block).replace("\r\n", "\n").split("\n")
        yield from whole
    if rest:
        yield rest
