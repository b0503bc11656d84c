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
SOUNDED, SOUNDED_BASE, SOUNDED_ENDS = b"<w:ruby>", b"<w:rubyBase>", re.compile(rb"</w:rubyBase>\s*+</w:ruby>")
"""Words with their sound in small letters above them, in a run; the words are runs themselves."""
WIDE = b"<w:gridSpan "
CELL = re.compile(rb'<w:tc[ >]|(</w:tc>)|<w:gridSpan w:val=["\']([1-9]\d{0,4})')
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
    if SOUNDED in part:
        part = _without_sounds(part)
    part = unfolded(part) if BOX_ENDS in part else part
    return spread(part) if WIDE in part else part


def _without_sounds(part: bytes) -> bytes:
    pieces, done = [], 0
    while (start := part.find(SOUNDED, done)) >= 0:
        base = part.find(SOUNDED_BASE, start + len(SOUNDED))
        end = SOUNDED_ENDS.search(part, base + len(SOUNDED_BASE)) if base >= 0 else None
        if end is None:
            break
        pieces += [part[done:start], b"</w:r>", part[base + len(SOUNDED_BASE) : end.start()], b"<w:r>"]
        done = end.end()
    return b"".join(pieces) + part[done:] if pieces else part


def spread(part: bytes) -> bytes:
    """With empty cells behind one that is as wide as several, so that those after it stay in their columns."""
    places = sorted(_gaps(part))
    borders = [0, *(place for place, _ in places), len(part)]
    fillings = [*(EMPTY * count for _, count in places), b""]
    pieces = (part[start:end] for start, end in pairwise(borders))
    return b"".join(piece for pair in zip(pieces, fillings, strict=True) for piece in pair)


def _gaps(part: bytes) -> Iterator[tuple[int, int]]:
    """Where a wide cell ends, and how many others it stands for; one look at the part, however its cells are nested."""
    around: list[list[int]] = [[]]
    for border in CELL.finditer(part):
        if border[2]:
            around[-1].append(min(MOST_COLUMNS, int(border[2])) - 1)
        elif border[1]:
            for count in around.pop():
                yield border.end(), count
            around = around or [[]]
        else:
            around.append([])
