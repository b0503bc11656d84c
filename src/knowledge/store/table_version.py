"""Whether tables have changed since one last looked. The database tells it itself, so no statement can be forgotten."""

from __future__ import annotations

from sqlalchemy import Connection, Table

from knowledge.store.database import Database

KINDS = ("INSERT", "UPDATE", "DELETE")


class Watch:
    """`version` is another number after every commit that touched one of the tables, before anybody hears of it."""

    def __init__(self, database: Database, *tables: Table) -> None:
        self.version = 0
        self._touched = False
        self._tables = tables
        database.write(self._begin)
        database.after_commit.append(self._committed)

    def _begin(self, connection: Connection) -> None:
        """Triggers that live as long as the writer's connection, and nowhere in the file."""
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.create_function("watched", 0, self._touch)
        for table in self._tables:
            for kind in KINDS:
                driver.execute(
                    f"CREATE TEMP TRIGGER watch_{table.name}_{kind} AFTER {kind} ON main.{table.name} "
                    "BEGIN SELECT watched(); END"
                )

    def _touch(self) -> None:
        self._touched = True

    def _committed(self) -> None:
        if self._touched:
            self._touched = False
            self.version += 1
