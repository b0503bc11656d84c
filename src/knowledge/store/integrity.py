"""Reads a database file from end to end: what SQLite says about its pages, and every passage with its stored checksum.

It opens a connection of its own, so that it sees the disk and neither blocks the writer nor waits for it. The file may
be the live database, the copy in a backup, or one that is being restored.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

from knowledge.store.chunks import compute_checksum

MAX_PROBLEMS = 100
"""How many problems SQLite lists before it stops looking."""
STEPS_BETWEEN_STOP_CHECKS = 1_000_000
"""After so many steps of SQLite's machine it is asked whether to stop."""
TREE_PAGE_PATTERN = re.compile(r"^(?:On tree page |Tree )(\d+)\b")
_SELECT_CHUNKS = """
    SELECT c.position, c.text, c.section, c.checksum
    FROM documents d JOIN chunks c ON c.content_id = d.content_id
    WHERE d.id = ? ORDER BY c.position
"""
_SELECT_NAMES = "SELECT title, filename FROM documents WHERE id = ?"
ShouldStop = Callable[[], bool]
ReadError: TypeAlias = sqlite3.Error
"""What reading a damaged database raises."""
Reader: TypeAlias = sqlite3.Connection


@contextmanager
def open_read_only(path: Path, stop: ShouldStop | None = None) -> Iterator[Reader]:
    """A connection that writes nothing."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA cell_size_check=ON")
        if stop is not None:
            connection.set_progress_handler(lambda: int(stop()), STEPS_BETWEEN_STOP_CHECKS)
        yield connection


def inspect_quickly(path: Path) -> tuple[str | None, str]:
    """The schema of a database, and what SQLite says about its pages ("ok" if they are whole); nothing is written."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return (row[0] if row else None), connection.execute("PRAGMA quick_check(1)").fetchone()[0]


def find_structure_problems(connection: Reader) -> Iterator[str]:
    """What SQLite's own checks say, with the names of tables and indexes in place of page numbers."""
    try:
        names = {int(row[0]): str(row[1]) for row in connection.execute("SELECT rootpage, name FROM sqlite_master")}
        for (line,) in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})"):
            if line != "ok":
                yield from (
                    _add_object_name(part, names) for part in str(line).splitlines() if not part.startswith("***")
                )
        for table, row_id, parent, _ in connection.execute("PRAGMA foreign_key_check"):
            yield f"row {row_id} of {table} refers to a row of {parent} that does not exist"
    except sqlite3.Error as error:
        yield f"the check ended early: {error}"


def _add_object_name(line: str, names: dict[int, str]) -> str:
    found = TREE_PAGE_PATTERN.match(line)
    name = names.get(int(found[1])) if found else None
    return f"{name}: {line}" if name else line


def list_document_ids(connection: Reader) -> list[int]:
    """Every document, read from an index where SQLite can, so that a damaged table hides as few as possible."""
    return sorted(int(row[0]) for row in connection.execute("SELECT id FROM documents"))


def find_document_name(connection: Reader, document_id: int) -> str | None:
    """The title, and the file name where it says more; None where the row cannot be read."""
    try:
        row = connection.execute(_SELECT_NAMES, (document_id,)).fetchone()
    except sqlite3.Error:
        return None
    if row is None:
        return None
    title, filename = row
    return str(title) if not filename or filename == title else f"{title} ({filename})"


def list_originals(connection: Reader) -> dict[str, tuple[int, int]]:
    """Every original by its SHA-256, with its size and one of the documents that name it."""
    rows = connection.execute("SELECT sha256, size_bytes, id FROM documents")
    return {str(sha256): (int(size), int(identity)) for sha256, size, identity in rows}


def has_checksums(connection: Reader) -> bool:
    """Whether passages have checksums: those in backups of older versions have none."""
    return any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(chunks)"))


def count_altered_chunks(connection: Reader, document_id: int) -> tuple[int, int]:
    """How many passages of a document are not what was stored, of how many; raises what SQLite raises, and ValueError
    where a value is of another kind."""
    altered = total = 0
    for position, text, section, stored in connection.execute(_SELECT_CHUNKS, (document_id,)):
        names = json.loads(section)
        if not isinstance(text, str) or not isinstance(names, list):
            raise ValueError(f"passage {position} holds values of another kind")
        total += 1
        altered += compute_checksum([str(name) for name in names], text) != stored
    return altered, total
