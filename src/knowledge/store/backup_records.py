"""When backups were made by schedule, kept in the settings of the database, so that all servers of it know."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.transfer.tables import BACKUP_RECORD_NAME

S = schema.settings.c


@dataclass(frozen=True, slots=True)
class BackupRecord:
    """Times in seconds since 1970, 0 for never; `error` says why the last attempt failed, empty if it did not."""

    succeeded_at: float = 0.0
    attempted_at: float = 0.0
    file: str = ""
    error: str = ""


class BackupRecordStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> BackupRecord:
        with self._database.read() as connection:
            stored = connection.execute(select(S.value).where(S.name == BACKUP_RECORD_NAME)).scalar()
        return BackupRecord() if stored is None else BackupRecord(**json.loads(stored))

    def write(self, record: BackupRecord) -> None:
        def work(connection: Connection) -> None:
            connection.execute(delete(schema.settings).where(S.name == BACKUP_RECORD_NAME))
            connection.execute(
                insert(schema.settings).values(name=BACKUP_RECORD_NAME, value=json.dumps(asdict(record)))
            )

        self._database.write(work, is_idempotent=True)
