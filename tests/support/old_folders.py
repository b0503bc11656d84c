"""Data folders of earlier versions: one dump per schema, each with one note and its original.

A new migration needs a dump of the schema before it (`sqlite3 knowledge.db .dump`) that contains this note.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

DUMPS = sorted((Path(__file__).parents[1] / "data" / "store").glob("schema_*.sql"))
NOTE_TEXT = "tea in the kitchen"


def get_schema(dump: Path) -> str:
    return dump.stem.removeprefix("schema_")


def restore_dump(dump: Path, data: Path) -> Path:
    """Restore the data folder of a dump and return the path of its database."""
    name = hashlib.sha256(NOTE_TEXT.encode()).hexdigest()
    original = data / "files" / name[:2] / name
    original.parent.mkdir(parents=True)
    original.write_text(NOTE_TEXT)
    with sqlite3.connect(data / "knowledge.db") as old:
        old.execute("PRAGMA journal_mode=WAL")
        old.executescript(dump.read_text("utf-8"))
    old.close()
    return data / "knowledge.db"
