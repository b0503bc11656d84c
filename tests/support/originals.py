"""The folder of originals of an engine, for tests that look at its files."""

from __future__ import annotations

from knowledge.blobs.folder import FolderBlobs
from knowledge.engine.local import LocalEngine


def get_folder(engine: LocalEngine) -> FolderBlobs:
    files = engine._parts.files
    assert isinstance(files, FolderBlobs)
    return files
