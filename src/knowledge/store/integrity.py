"""Check a database file: SQLite's own integrity checks, and the checksum of every chunk.

Uses a separate connection, so that it reads from disk and does not block the writer. The file may be the live
database, the copy in a backup, or one that is being restored.
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
"""Limit of `PRAGMA integrity_check`."""
STEPS_BETWEEN_STOP_CHECKS = 1_000_000
"""Virtual machine instructions between two calls of the progress handler."""
TREE_PAGE_PATTERN = re.compile(r"^(?:On tree page |Tree )(\d+)\b")
_SELECT_CHUNKS = """
    SELECT c.position, c.text, c.section, c.checksum
    FROM documents d JOIN chunks c ON c.content_id = d.content_id
    WHERE d.id = ? ORDER BY c.position
"""
_SELECT_NAMES = "SELECT title, filename FROM documents WHERE id = ?"
ShouldStop = Callable[[], bool]
ReadError: TypeAlias = sqlite3.Error
"""Raised when a damaged database is read."""
Reader: TypeAlias = sqlite3.Connection


@contextmanager
def open_read_only(path: Path, stop: ShouldStop | None = None) -> Iterator[Reader]:
    """Open a read-only connection that aborts when `stop` returns true."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("PRAGMA cell_size_check=ON")
        if stop is not None:
            connection.set_progress_handler(lambda: int(stop()), STEPS_BETWEEN_STOP_CHECKS)
        yield connection


def inspect_quickly(path: Path) -> tuple[str | None, str]:
    """Return the schema version and the first result of `PRAGMA quick_check` ("ok" if intact)."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return (row[0] if row else None), connection.execute("PRAGMA quick_check(1)").fetchone()[0]


def find_structure_problems(connection: Reader) -> Iterator[str]:
    """Yield the results of SQLite's integrity checks, with table or index names added."""
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
        yield f"the check was aborted: {error}"


def _add_object_name(line: str, names: dict[int, str]) -> str:
    found = TREE_PAGE_PATTERN.match(line)
    name = names.get(int(found[1])) if found else None
    return f"{name}: {line}" if name else line


def list_document_ids(connection: Reader) -> list[int]:
    """Return all document ids; SQLite can read them from an index if the table is damaged."""
    return sorted(int(row[0]) for row in connection.execute("SELECT id FROM documents"))


def find_document_name(connection: Reader, document_id: int) -> str | None:
    """Return title and file name of a document, or None if the row cannot be read."""
    try:
        row = connection.execute(_SELECT_NAMES, (document_id,)).fetchone()
    except sqlite3.Error:
        return None
    if row is None:
        return None
    title, filename = row
    return str(title) if not filename or filename == title else f"{title} ({filename})"


def list_originals(connection: Reader) -> dict[str, tuple[int, int]]:
    """Return size and one document id of every original by its SHA-256."""
    rows = connection.execute("SELECT sha256, size_bytes, id FROM documents")
    return {str(sha256): (int(size), int(identity)) for sha256, size, identity in rows}


def has_checksums(connection: Reader) -> bool:
    """Return whether the chunks have checksums; backups before schema 0005 have none."""
    return any(row[1] == "checksum" for row in connection.execute("PRAGMA table_info(chunks)"))


def count_altered_chunks(connection: Reader, document_id: int) -> tuple[int, int]:
    """Return the numbers of altered and of all chunks; raises sqlite3.Error or ValueError if they cannot be read."""
    altered = total = 0
    for position, text, section, stored in connection.execute(_SELECT_CHUNKS, (document_id,)):
        names = json.loads(section)
        if not isinstance(text, str) or not isinstance(names, list):
            raise ValueError(f"passage {position} has values of the wrong type")
        total += 1
        altered += compute_checksum([str(name) for name in names], text) != stored
    return altered, total
