"""Restores a backup into a data folder or into PostgreSQL; both kinds of database make the same archive."""

from __future__ import annotations

from typing import BinaryIO

from knowledge import failpoints
from knowledge.engine.backup import restore_backup, unpack_backup
from knowledge.engine.cluster.originals import check_originals
from knowledge.engine.moving import originals
from knowledge.engine.moving.move import compare_rows, copy_rows
from knowledge.engine.moving.places import DataPlace, OpenPlace, open_place
from knowledge.engine.moving.progress import MoveProgress
from knowledge.errors import NotNow
from knowledge.model import Json, now
from knowledge.store.jobs.recovery import release_unfinished
from knowledge.store.transfer import probe
from knowledge.store.transfer.marks import MoveMark, MoveState, write_mark
from knowledge.store.transfer.sequences import mark_trimmed_log
from knowledge.store.transfer.tables import MOVED_FROM_NAME

EMPTY_TARGET_HINT = "Create an empty database, and name it with KNOWLEDGE_DATABASE_URL."


def restore_into(archive: BinaryIO, place: DataPlace, progress: MoveProgress) -> Json:
    """Restore a backup into an empty place and return its manifest; with the same file an interrupted one goes on."""
    if place.database_url is None:
        return restore_backup(archive, place.data)
    filled, found = probe.find_rows_in_postgres(place.database_url)
    is_interrupted = found is not None and found.state is MoveState.COPYING
    if filled and not is_interrupted:
        raise NotNow(f"{place.describe()} is not empty: it has rows in {', '.join(filled[:5])}", hint=EMPTY_TARGET_HINT)
    with unpack_backup(archive, place.data) as (draft, manifest):
        mark = _make_mark(manifest)
        if found is not None and is_interrupted and found.id != mark.id:
            raise NotNow(
                f"{place.describe()} has the rows of another unfinished copy, from {found.place}",
                hint=EMPTY_TARGET_HINT,
            )
        with open_place(DataPlace(draft)) as old, open_place(place) as new:
            write_mark(new.database, MOVED_FROM_NAME, mark)
            failpoints.trigger("move.begun")
            _copy_everything(old, new, progress)
            write_mark(new.database, MOVED_FROM_NAME, MoveMark(mark.id, mark.place, MoveState.DONE, mark.at))
    return manifest


def _make_mark(manifest: Json) -> MoveMark:
    return MoveMark(
        str(manifest.get("database_sha256")),
        f"the backup of {manifest.get('made_at')}",
        MoveState.COPYING,
        now().isoformat(),
    )


def _copy_everything(old: OpenPlace, new: OpenPlace, progress: MoveProgress) -> None:
    release_unfinished(old.database)  # jobs that ran when the backup was made
    old.database.write(mark_trimmed_log, is_idempotent=True)
    needed = originals.list_needed(old.database, old.originals)
    todo = originals.compare_originals(needed, new.originals)
    originals.copy_originals(todo, old.originals, new.originals, progress)
    rows, _ = copy_rows(old.database, new.database, progress)
    originals.require_complete(needed, new.originals)
    compare_rows(old.database, new.database, rows, progress)
    check_originals(new.database, new.originals)
