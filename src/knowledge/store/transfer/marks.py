"""Marks of a move in the settings of both databases, so that no server starts on old or incomplete data."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from enum import StrEnum

from sqlalchemy import Connection, delete, insert, select

from knowledge.errors import DataMoved
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.transfer.tables import MOVED_FROM_NAME, MOVED_TO_NAME

log = logging.getLogger(__name__)

S = schema.settings.c


class MoveState(StrEnum):
    COPYING = "copying"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class MoveMark:
    """The id of a move, the place at its other end without secrets, its state and the time when it was marked."""

    id: str
    place: str
    state: MoveState
    at: str


def read_mark(connection: Connection, name: str) -> MoveMark | None:
    stored = connection.execute(select(S.value).where(S.name == name)).scalar()
    if stored is None:
        return None
    values = json.loads(stored)
    return MoveMark(values["id"], values["place"], MoveState(values["state"]), values["at"])


def read_marks(database: Database) -> tuple[MoveMark | None, MoveMark | None]:
    """Return where the data of a database was moved to, and where it came from."""
    with database.read() as connection:
        return read_mark(connection, MOVED_TO_NAME), read_mark(connection, MOVED_FROM_NAME)


def write_mark(database: Database, name: str, mark: MoveMark) -> None:
    def work(connection: Connection) -> None:
        connection.execute(delete(schema.settings).where(S.name == name))
        connection.execute(insert(schema.settings).values(name=name, value=json.dumps(asdict(mark))))

    database.write(work, is_idempotent=True)


def clear_mark(database: Database, name: str) -> None:
    database.write(
        lambda connection: connection.execute(delete(schema.settings).where(S.name == name)), is_idempotent=True
    )


def require_not_moved(database: Database) -> None:
    """Close the database and raise DataMoved if its data is elsewhere or incomplete; give up an unfinished move."""
    try:
        _check_marks(database)
    except BaseException:
        database.close()
        raise


def _check_marks(database: Database) -> None:
    moved_to, moved_from = read_marks(database)
    if moved_from is not None and moved_from.state is MoveState.COPYING:
        raise DataMoved(
            f"The data of this database is incomplete: copying it from {moved_from.place} has not ended",
            hint="Run the same command again, which goes on where it stopped.",
            moved_from=moved_from.place,
        )
    if moved_to is None:
        return
    if moved_to.state is MoveState.DONE:
        raise DataMoved(
            f"The data was moved to {moved_to.place} on {moved_to.at[:10]} and is not used here any more",
            hint="Set KNOWLEDGE_DATABASE_URL or KNOWLEDGE_DATA to that place.",
            moved_to=moved_to.place,
        )
    log.warning("the unfinished move to %s is given up, because a server starts on the old data", moved_to.place)
    clear_mark(database, MOVED_TO_NAME)
