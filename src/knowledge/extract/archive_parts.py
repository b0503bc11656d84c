"""The parts of an archive that is the shell of a document: what stands in them, and the whole with some of them new."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace

from knowledge.extract.base import Source
from knowledge.extract.markup_tree import reading

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


def rewritten(source: Source, changed: Mapping[str, bytes]) -> Source:
    """The document with those parts new behind all others, which stay as they are packed."""
    buffer = io.BytesIO(source.read())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.filelist = [part for part in archive.filelist if part.filename not in changed]
        for name, data in changed.items():
            archive.NameToInfo.pop(name, None)
            archive.writestr(name, data)
    return replace(source, content=buffer.getvalue())
