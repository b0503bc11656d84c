"""Word documents are mended before office-oxide reads them, where it would misplace or lose what a reader sees."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from itertools import pairwise

from knowledge import errors
from knowledge.extract import markup_tree
from knowledge.extract.archive import open_archive
from knowledge.extract.archive_parts import rewritten
from knowledge.extract.base import Source
from knowledge.extract.word_boxes import BOX_ENDS, unfolded

PARTS = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml$")
EDGES, ROOM = re.compile(r"word/(?:header|footer)\d*\.xml$"), 3 << 10
"""A document may have a hundred of these; without a box they are smaller than so many bytes."""
SOUNDED_ENDS = b"</w:rubyBase>"
SOUNDED = re.compile(rb"<w:ruby>.*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>", re.DOTALL)
"""Words with their sound in small letters above them, in a run; the words are runs themselves."""
WIDE = b"<w:gridSpan "
SPAN = re.compile(rb'<w:gridSpan w:val=["\']([1-9]\d{0,4})')
CELL = re.compile(rb"<w:tc[ >]|</w:tc>")
EMPTY, MOST_COLUMNS = b"<w:tc><w:p/></w:tc>", 63
"""The columns that Word allows."""


def mended(source: Source) -> Source:
    """The document in other words, or as it is where that changes nothing."""
    with open_archive(source) as archive:
        names = [part.filename for part in archive.infolist() if _is_told(part)]
        try:
            parts = {name: markup_tree.member(archive, name) for name in names}
        except errors.Damaged:  # office-oxide reads what can be read, or says why not
            return source
    changed = {name: new for name, part in parts.items() if (new := _mended(part)) is not part}
    return rewritten(source, changed) if changed else source


def _is_told(part: zipfile.ZipInfo) -> bool:
    edge = EDGES.match(part.filename) is not None and part.file_size > ROOM
    return edge or PARTS.match(part.filename) is not None


def _mended(part: bytes) -> bytes:
    if SOUNDED_ENDS in part:
        part = SOUNDED.sub(rb"</w:r>\1<w:r>", part)
    part = unfolded(part) if BOX_ENDS in part else part
    return spread(part) if WIDE in part else part


def spread(part: bytes) -> bytes:
    """With empty cells behind one that is as wide as several, so that those after it stay in their columns."""
    places = sorted(_gaps(part))
    borders = [0, *(place for place, _ in places), len(part)]
    fillings = [*(EMPTY * count for _, count in places), b""]
    pieces = (part[start:end] for start, end in pairwise(borders))
    return b"".join(piece for pair in zip(pieces, fillings, strict=True) for piece in pair)


def _gaps(part: bytes) -> Iterator[tuple[int, int]]:
    """Where a wide cell ends, and how many others it stands for; only these cells are looked at, not the whole part."""
    place = part.find(WIDE)
    while place >= 0:
        span, depth = SPAN.match(part, place), 1
        for border in CELL.finditer(part, place) if span else ():
            depth += -1 if border[0] == b"</w:tc>" else 1
            if depth == 0:
                yield border.end(), min(MOST_COLUMNS, int(span[1])) - 1 if span else 0
                break
        place = part.find(WIDE, place + 1)
