"""Moves all data between a folder with SQLite and PostgreSQL; an interrupted move goes on where it stopped.

The target is marked as incomplete before the first row is copied, and the source as moved after everything was
compared. A server starts on neither in between, so that there are never two copies in use.
"""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from knowledge import failpoints
from knowledge.engine.cluster.originals import check_originals
from knowledge.engine.data_folder import open_database
from knowledge.engine.moving import originals
from knowledge.engine.moving.places import (
    DataPlace,
    OpenPlace,
    open_originals_alone,
    open_place,
    open_scratch_originals,
    require_clear_folder,
    require_source,
)
from knowledge.engine.moving.progress import MoveProgress
from knowledge.errors import DatabaseFailed, DataMoved, NotNow
from knowledge.model import Json, now
from knowledge.store.database import Database
from knowledge.store.jobs.recovery import recover_jobs
from knowledge.store.sqlite import DATABASE_NAME
from knowledge.store.transfer import probe
from knowledge.store.transfer.exclusive import require_no_servers
from knowledge.store.transfer.marks import MoveMark, MoveState, read_mark, read_marks, write_mark
from knowledge.store.transfer.rows import copy_table, digest_table
from knowledge.store.transfer.sequences import mark_trimmed_log, read_last_ids, write_last_ids
from knowledge.store.transfer.tables import (
    MOVED_FROM_NAME,
    MOVED_TO_NAME,
    count_rows,
    find_filled_tables,
    list_copied_tables,
)

EMPTY_DATABASE_HINT = "Create an empty database and name it with --to."
UNCHANGED_HINT = "The old data is unchanged and can be used. Empty the target and repeat the command."


@dataclass(frozen=True, slots=True)
class MoveReport:
    """What was moved, or what would be moved and how long it would take."""

    source: str
    target: str
    originals: str
    rows: dict[str, int]
    copied_rows: int
    original_count: int
    original_bytes: int
    copied_originals: int
    copied_bytes: int
    seconds: float
    already_moved: bool = False

    def to_json(self) -> Json:
        return asdict(self)


def plan_move(source: DataPlace, target: DataPlace) -> MoveReport:
    """Check a move, and estimate what it copies and how long it takes; what it copies to measure is deleted again."""
    require_source(source)
    with ExitStack() as stack:
        old = stack.enter_context(open_place(source))
        moved_to, _ = read_marks(old.database)
        _require_free_target(target, moved_to)
        needed = originals.list_needed(old.database, old.originals)
        todo = _find_originals_to_copy(needed, old, target)
        open_scratch = (
            probe.open_scratch_file(target.data)
            if target.database_url is None
            else probe.open_scratch_postgres(target.database_url)
        )
        reader, scratch = stack.enter_context(old.database.read()), stack.enter_context(open_scratch)
        tables = probe.estimate_tables(reader, scratch)
        seconds = sum(table.seconds for table in tables)
        if todo.missing:
            scratch_originals = stack.enter_context(open_scratch_originals(target, old.database))
            seconds += originals.estimate_seconds(todo, old.originals, scratch_originals)
    rows = {table.name: table.rows for table in tables if table.rows}
    return _make_report(source, target, rows, sum(rows.values()), todo, seconds)


def move_data(source: DataPlace, target: DataPlace, progress: MoveProgress) -> MoveReport:
    """Copy everything to the target, compare both, and mark the source as moved."""
    started = perf_counter()
    require_source(source)
    with open_place(source) as old:
        moved_to, _ = read_marks(old.database)
        moved_from = _require_free_target(target, moved_to)
        if _is_done(moved_to) and _is_done(moved_from):
            return _report_moved(old, target)
        recover_jobs(old.database)  # of a server that was killed
        old.database.write(mark_trimmed_log, is_idempotent=True)
        needed = originals.list_needed(old.database, old.originals)
        with open_place(target) as new:
            mark = _begin(old, new, moved_from)
            todo = originals.compare_originals(needed, new.originals)
            if old.place.originals_location != new.place.originals_location:
                originals.copy_originals(todo, old.originals, new.originals, progress)
            rows, copied = copy_rows(old.database, new.database, progress)
            originals.require_complete(needed, new.originals)
            compare_rows(old.database, new.database, rows, progress)
            _finish(old, new, mark)
    return _make_report(source, target, rows, copied, todo, perf_counter() - started)


def copy_rows(source: Database, target: Database, progress: MoveProgress) -> tuple[dict[str, int], int]:
    """Copy the rows that the target lacks; return the rows of each table, and how many were copied."""
    tables = list_copied_tables()
    with source.read() as reader:
        rows = {table.name: count for table in tables if (count := count_rows(reader, table))}
        progress.start("Copying rows", sum(rows.values()), "rows")
        copied = 0

        def advance(done: int) -> None:
            progress.advance(done)
            failpoints.trigger("move.batch")

        for table in tables:
            with target.read() as connection:
                progress.advance(count_rows(connection, table))
            copied += copy_table(reader, target, table, advance)
        last_ids = read_last_ids(reader)
    target.write(lambda connection: write_last_ids(connection, last_ids), is_idempotent=True)
    failpoints.trigger("move.copied")
    return rows, copied


def compare_rows(source: Database, target: Database, rows: dict[str, int], progress: MoveProgress) -> None:
    """Raise DatabaseFailed unless every table has the same rows in both databases."""
    progress.start("Comparing", 2 * sum(rows.values()), "rows")
    with source.read() as left, target.read() as right:
        different = [
            table.name
            for table in list_copied_tables()
            if digest_table(left, table, progress.advance) != digest_table(right, table, progress.advance)
        ]
    if different:
        raise DatabaseFailed(f"The copy differs in {', '.join(different)}", hint=UNCHANGED_HINT, tables=[*different])


def _require_free_target(target: DataPlace, moved_to: MoveMark | None) -> MoveMark | None:
    """Return the mark of our own unfinished move at the target; raises NotNow if the target has other data."""
    if target.database_url is None:
        require_clear_folder(target.data)
        filled, found = _look_into_folder(target)
    else:
        filled, found = probe.find_rows_in_postgres(target.database_url)
    if found is not None and moved_to is not None and found.id == moved_to.id:
        return found
    if _is_done(moved_to):
        assert moved_to is not None
        raise DataMoved(f"The data was already moved to {moved_to.place} on {moved_to.at[:10]}", hint="")
    if found is not None and found.state is MoveState.COPYING:
        raise NotNow(
            f"{_capitalize(target.describe())} has the rows of another unfinished move, from {found.place}",
            hint=EMPTY_DATABASE_HINT,
        )
    if filled:
        raise NotNow(
            f"{_capitalize(target.describe())} is not empty: it has rows in {', '.join(filled[:5])}",
            hint=EMPTY_DATABASE_HINT,
        )
    return None


def _look_into_folder(target: DataPlace) -> tuple[list[str], MoveMark | None]:
    if not (target.data / DATABASE_NAME).exists():
        return [], None
    database = open_database(target.data, None)
    try:
        with database.read() as connection:
            return find_filled_tables(connection), read_mark(connection, MOVED_FROM_NAME)
    finally:
        database.close()


def _begin(old: OpenPlace, new: OpenPlace, moved_from: MoveMark | None) -> MoveMark:
    """Mark source and target with the id of the move, and return the mark of the target."""
    if moved_from is not None:  # our own, interrupted
        return moved_from
    move_id, at = uuid.uuid4().hex, now().isoformat()
    write_mark(old.database, MOVED_TO_NAME, MoveMark(move_id, new.place.describe(), MoveState.COPYING, at))
    mark = MoveMark(move_id, old.place.describe(), MoveState.COPYING, at)
    write_mark(new.database, MOVED_FROM_NAME, mark)
    failpoints.trigger("move.begun")
    return mark


def _finish(old: OpenPlace, new: OpenPlace, mark: MoveMark) -> None:
    """Mark the source as moved, then the target as complete; a server starts on neither in between."""
    moved_to, _ = read_marks(old.database)
    if moved_to is None or moved_to.id != mark.id:
        raise NotNow("A server has used the old data during the move", hint=UNCHANGED_HINT)
    if old.place.database_url is not None:
        require_no_servers(old.database, old.place.describe())
    if new.place.database_url is not None:
        check_originals(new.database, new.originals)
    at = now().isoformat()
    write_mark(old.database, MOVED_TO_NAME, MoveMark(mark.id, new.place.describe(), MoveState.DONE, at))
    failpoints.trigger("move.marked")
    write_mark(new.database, MOVED_FROM_NAME, MoveMark(mark.id, mark.place, MoveState.DONE, at))


def _find_originals_to_copy(needed: dict[str, int], old: OpenPlace, target: DataPlace) -> originals.OriginalsToCopy:
    if target.originals_location == old.place.originals_location:
        return originals.OriginalsToCopy(needed, {})
    if not target.is_bucket and not Path(target.originals_location).exists():
        return originals.OriginalsToCopy(needed, needed)
    with TemporaryDirectory(prefix="knowledge-estimate-") as scratch:
        return originals.compare_originals(needed, open_originals_alone(target, old.database, Path(scratch)))


def _is_done(mark: MoveMark | None) -> bool:
    return mark is not None and mark.state is MoveState.DONE


def _report_moved(old: OpenPlace, target: DataPlace) -> MoveReport:
    with old.database.read() as connection:
        rows = {table.name: count for table in list_copied_tables() if (count := count_rows(connection, table))}
    nothing = originals.OriginalsToCopy({}, {})
    return _make_report(old.place, target, rows, 0, nothing, 0.0, already_moved=True)


def _make_report(
    source: DataPlace,
    target: DataPlace,
    rows: dict[str, int],
    copied: int,
    todo: originals.OriginalsToCopy,
    seconds: float,
    *,
    already_moved: bool = False,
) -> MoveReport:
    return MoveReport(
        source.describe(),
        target.describe(),
        target.originals_location,
        rows,
        copied,
        len(todo.needed),
        sum(todo.needed.values()),
        len(todo.missing),
        todo.missing_bytes,
        round(seconds, 1),
        already_moved,
    )


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
