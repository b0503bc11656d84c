"""Word documents are mended before office-oxide reads them, where it would misplace or lose what a reader sees."""

from __future__ import annotations

import re
from dataclasses import replace

from knowledge import errors
from knowledge.extract import markup_tree
from knowledge.extract.archive import open_archive
from knowledge.extract.archive_parts import mentions, rewritten
from knowledge.extract.base import Source
from knowledge.extract.word_boxes import BOX_ENDS, unfolded

PARTS = re.compile(r"word/(?:document|header|footer|footnotes|endnotes)\d*\.xml$")
SOUNDED_ENDS = b"</w:rubyBase>"
SOUNDED = re.compile(rb"<w:ruby>.*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>", re.DOTALL)
"""Words with their sound in small letters above them, in a run; the words are runs themselves."""
WIDE = b"<w:gridSpan "
CELL = re.compile(rb'<w:tc[ >]|</w:tc>|<w:gridSpan w:val=["\'](\d+)')
EMPTY, MOST_COLUMNS = b"<w:tc><w:p/></w:tc>", 63
"""The columns that Word allows."""


def mended(source: Source) -> Source:
    """The document in other words, or as it is where that changes nothing."""
    with open_archive(source) as archive:
        names = [name for name in archive.namelist() if PARTS.match(name)]
        try:
            found = [name for name in names if mentions(archive, name, BOX_ENDS, SOUNDED_ENDS, WIDE)]
            changed = {name: _mended(markup_tree.member(archive, name)) for name in found}
            return replace(source, content=rewritten(archive, changed)) if changed else source
        except errors.Damaged:  # office-oxide reads what can be read, or says why not
            return source


def _mended(part: bytes) -> bytes:
    if SOUNDED_ENDS in part:
        part = SOUNDED.sub(rb"</w:r>\1<w:r>", part)
    part = unfolded(part) if BOX_ENDS in part else part
    return spread(part) if WIDE in part else part


def spread(part: bytes) -> bytes:
    """With empty cells behind one that is as wide as several, so that those after it stay in their columns."""
    spans: list[int] = []

    def beside(found: re.Match[bytes]) -> bytes:
        if found[1] and spans:
            spans[-1] = min(MOST_COLUMNS, int(found[1]))
        elif found[0] == b"</w:tc>" and spans:
            return found[0] + EMPTY * (spans.pop() - 1)
        elif not found[1]:
            spans.append(1)
        return found[0]

    return CELL.sub(beside, part)
