"""Word documents are mended before office-oxide reads them, where it would misplace or lose what a reader sees."""

from __future__ import annotations

import re
import zipfile
from collections.abc import (
    Iterable,
    Iterator,
)
from dataclasses import (
    dataclass,
    field,
)
from itertools import (
    pairwise,
    takewhile,
)

from knowledge import (
    errors,
)
from knowledge.extract import (
    safe_xml,
)
from knowledge.extract.archive import (
    open_archive,
    rewritten,
)
from knowledge.extract.base import (
    Source,
)

BOX, BOX_ENDS, PARAGRAPH_ENDS = b"<w:txbxContent>", b"</w:txbxContent>", b"</w:p>"
OLD, OLD_ENDS = b"<mc:Fallback>", b"</mc:Fallback>"
"""The same once more, for programs that do not know the newer kind of box."""
BORDER = re.compile(b"(" + b"|".join((BOX, BOX_ENDS, PARAGRAPH_ENDS, OLD, OLD_ENDS)) + b")")


@dataclass(slots=True)
class Layer:
    """What has been written so far, of the page or of one box, and the boxes that wait for its paragraph to end."""

    written: list[bytes] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)


def unfolded(part: bytes) -> bytes:
    """One part of a document, with nothing left out but what stands there twice."""
    layers = [Layer()]
    for piece in _once(BORDER.split(part)):
        if piece == BOX:
            layers.append(Layer())
        elif piece == BOX_ENDS and len(layers) > 1:
            inner = layers.pop()
            layers[-1].waiting += inner.written + inner.waiting
        elif piece == PARAGRAPH_ENDS:
            layers[-1].written += [piece, *layers[-1].waiting]
            layers[-1].waiting = []
        else:
            layers[-1].written.append(piece)
    return b"".join(piece for layer in layers for piece in (*layer.written, *layer.waiting))


def _once(pieces: Iterable[bytes]) -> Iterator[bytes]:
    depth = 0
    for piece in pieces:
        depth += piece == OLD
        if not depth:
            yield piece
        depth -= piece == OLD_ENDS and depth > 0


SECTION, BLOCK = "\n\n---\n\n", "\n\n"
MOST = 4
"""Blocks of a header or a footer."""


def edges_once(text: str) -> str:
    """Without what each section has at its top like the first one, and at its bottom like the last one."""
    if SECTION not in text:
        return text
    sections = [section.strip("\n").split(BLOCK) for section in text.split(SECTION)]
    first, last = sections[0], sections[-1]
    for number, blocks in enumerate(sections):
        top = _same(blocks, first) if number else 0
        bottom = _same(blocks[:top:-1], last[::-1]) if blocks is not last else 0
        sections[number] = blocks[top : len(blocks) - bottom]
    return SECTION.join(BLOCK.join(blocks) for blocks in sections if blocks)


def _same(blocks: list[str], others: list[str]) -> int:
    """How many blocks from the beginning on are the same; a heading or a table is no edge of a page."""
    pairs = zip(blocks[:MOST], others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1] and not pair[0].startswith(("#", "|")), pairs))


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
            parts = {name: safe_xml.member(archive, name) for name in names}
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
