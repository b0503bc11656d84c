"""An archive that is the shell of a document, with some of its parts new."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace

from knowledge.extract.base import Source


def rewritten(source: Source, changed: Mapping[str, bytes]) -> Source:
    """The document with those parts new behind all others, which stay as they are packed."""
    buffer = io.BytesIO(source.read())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.filelist = [part for part in archive.filelist if part.filename not in changed]
        for name, data in changed.items():
            archive.NameToInfo.pop(name, None)
            archive.writestr(name, data)
    return replace(source, content=buffer.getvalue())
