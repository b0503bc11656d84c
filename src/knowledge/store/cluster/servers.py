"""The servers that use one database: heartbeats, and how far their indexes have followed the change log."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, case, delete, func, insert, select, update

from knowledge.store import schema
from knowledge.store.cluster.clock import MICROSECONDS_PER_SECOND, before_seconds, database_now
from knowledge.store.database import Database
from knowledge.store.row_mapping import parse_timestamp

V = schema.servers.c

LIVE_SECONDS = 10.0
"""A server is live if its last heartbeat is at most this old."""
DEAD_KEEP_SECONDS = 3600.0
"""How long the row of a dead server is kept, so that the status shows that it is missing."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server reports with each heartbeat."""

    address: str
    version: str
    role: str
    has_index: bool
    """Whether it follows the change log; False for workers only, and while its index fails."""
    is_ready: bool
    applied_seq: int
    checkpoint_seq: int
    model_id: int | None
    built_model_id: int | None = None


@dataclass(frozen=True, slots=True)
class StoredServer:
    id: str
    address: str
    version: str
    role: str
    has_index: bool
    is_ready: bool
    applied_seq: int
    model_id: int | None
    built_model_id: int | None
    started_at: datetime
    seen_at: datetime
    seconds_ago: float

    @property
    def is_live(self) -> bool:
        return self.seconds_ago <= LIVE_SECONDS

    def has_model(self, model_id: int) -> bool:
        """Return whether its index has the vectors of a model, in use or ready to be."""
        return model_id in (self.model_id, self.built_model_id)


class ServerStore:
    def __init__(self, database: Database, server_id: str) -> None:
        self._database, self.server_id = database, server_id

    def record_heartbeat(self, state: ServerState) -> None:
        """Store the state with the time of the database; a row that was swept is inserted again."""
        values = asdict(state)
        update_own = update(schema.servers).where(V.id == self.server_id).values(seen_at=database_now(), **values)

        def work(connection: Connection) -> None:
            if not connection.execute(update_own).rowcount:
                now = {"started_at": database_now(), "seen_at": database_now()}
                connection.execute(insert(schema.servers).values(id=self.server_id, **now, **values))

        self._database.write(work)

    def record_applied(self, seq: int, checkpoint: int) -> None:
        own = update(schema.servers).where(V.id == self.server_id)
        values = {"applied_seq": seq, "checkpoint_seq": checkpoint}
        self._database.write(lambda connection: connection.execute(own.values(**values)))

    def remove(self) -> None:
        """Remove the row of this server, which ends."""
        self._database.write(
            lambda connection: connection.execute(delete(schema.servers).where(V.id == self.server_id))
        )

    def sweep_dead(self) -> int:
        old = V.seen_at < before_seconds(DEAD_KEEP_SECONDS)
        return int(
            self._database.write(lambda connection: connection.execute(delete(schema.servers).where(old)).rowcount)
        )

    def list_all(self) -> list[StoredServer]:
        ago = (database_now() - V.seen_at).label("ago")
        with self._database.read() as connection:
            return [_make_server(row) for row in connection.execute(select(schema.servers, ago).order_by(V.id))]

    def list_live(self) -> list[StoredServer]:
        return [server for server in self.list_all() if server.is_live or server.id == self.server_id]

    def find_applied_by_all(self) -> int | None:
        """Return the change that the indexes of all live servers that are ready have applied; None without one."""
        return self._find_minimum(V.applied_seq, V.is_ready)

    def find_durable_on_all(self) -> int | None:
        """Return the change that the indexes of all live servers have made durable; None without one."""
        return self._find_minimum(V.checkpoint_seq)

    def _find_minimum(self, column: Any, *conditions: Any) -> int | None:
        live = (V.seen_at >= before_seconds(LIVE_SECONDS)) | (V.id == self.server_id)
        lowest = select(func.min(column)).where(V.has_index, live, *conditions)
        with self._database.read() as connection:
            found: int | None = connection.execute(lowest).scalar()
        return found


def count_is_live(server_id_column: Any) -> Any:
    """Return the SQL value 1 if the server of a job is live, otherwise 0."""
    seen = select(func.count()).where(V.id == server_id_column, V.seen_at >= before_seconds(LIVE_SECONDS))
    return case((seen.scalar_subquery() > 0, 1), else_=0)


def _make_server(row: Any) -> StoredServer:
    return StoredServer(
        id=row.id,
        address=row.address,
        version=row.version,
        role=row.role,
        has_index=row.has_index,
        is_ready=row.is_ready,
        applied_seq=row.applied_seq,
        model_id=row.model_id,
        built_model_id=row.built_model_id,
        started_at=parse_timestamp(row.started_at),
        seen_at=parse_timestamp(row.seen_at),
        seconds_ago=max(0.0, row.ago / MICROSECONDS_PER_SECOND),
    )
