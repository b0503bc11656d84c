"""Which of the new files is one that is gone, under another name: its document goes along and is not read again."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath

from knowledge.engine.api import Engine
from knowledge.errors import DocumentNotFound
from knowledge.model import Document
from knowledge.surfaces.cli.add.sync_plan import Stamp


async def renamed(
    engine: Engine, gone: Mapping[str, int], new: Collection[str], found: Mapping[str, Stamp]
) -> dict[str, str]:
    """Each path that is gone, and where its bytes are now; a suffix says how a file is read, so it must be the same."""
    moves: dict[str, str] = {}
    for path, number in gone.items() if new else ():
        try:
            document = await engine.document(number)
        except DocumentNotFound:
            continue
        free = [other for other in likely(path, new) if other not in moves.values()]
        target = await first_same(document, [other for other in free if found[other][1] == document.size_bytes])
        if target is not None:
            moves[path] = target
    return moves


def likely(path: str, new: Collection[str]) -> list[str]:
    """Those with its suffix; the same name in another folder comes first."""
    name = PurePath(path)
    same = [other for other in new if PurePath(other).suffix.lower() == name.suffix.lower()]
    return sorted(same, key=lambda other: (PurePath(other).name != name.name, other))


async def first_same(document: Document, paths: list[str]) -> str | None:
    for path in paths:
        if await asyncio.to_thread(digest, Path(path)) == document.sha256:
            return path
    return None


def digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it went while we looked; the next look will tell
        return None
