"""The parts of an archive that is the shell of a document: what stands in them, and the whole with some of them new."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

from knowledge.extract.markup_tree import member, reading

PIECE = 64 << 10
"""Bytes at a time: they stay in the processor's cache, which makes looking cheaper than reading the part as a whole."""


def mentions(archive: zipfile.ZipFile, name: str, *words: bytes) -> bool:
    """Whether one of the words stands in a part."""
    longest, behind = max(map(len, words)), b""
    with reading(archive, name) as file:
        while piece := file.read(PIECE):
            seam = behind + piece[:longest]
            if any(word in piece or word in seam for word in words):
                return True
            behind = piece[-longest:]
    return False


def rewritten(archive: zipfile.ZipFile, changed: Mapping[str, bytes]) -> bytes:
    """The archive with those parts changed, and nothing packed, since it is read once."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for name in dict.fromkeys(archive.namelist()):
            written.writestr(name, changed[name] if name in changed else member(archive, name))
    return buffer.getvalue()
