"""Data folders as earlier versions made them: one dump for each schema, each with one note and its original.

Whoever adds a migration keeps a dump of the schema before it (`sqlite3 knowledge.db .dump`), with this note in it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

DUMPS = sorted((Path(__file__).parents[1] / "data" / "store").glob("schema_*.sql"))
NOTE_TEXT = "tea in the kitchen"


def schema_of(dump: Path) -> str:
    return dump.stem.removeprefix("schema_")


def restore_dump(dump: Path, data: Path) -> Path:
    """The folder as that version left it; answers its database."""
    name = hashlib.sha256(NOTE_TEXT.encode()).hexdigest()
    original = data / "files" / name[:2] / name
    original.parent.mkdir(parents=True)
    original.write_text(NOTE_TEXT)
    with sqlite3.connect(data / "knowledge.db") as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.executescript(dump.read_text("utf-8"))
    old.close()
    return data / "knowledge.db"
