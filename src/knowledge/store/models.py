"""Which models made the vectors, and which one answers questions now."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from knowledge.store import schema
from knowledge.store.database import Database, new_id

M = schema.models.c


@dataclass(frozen=True, slots=True)
class StoredModel:
    id: int
    fingerprint: str
    name: str
    dimension: int


class ModelStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def active(self) -> StoredModel | None:
        with self._database.read() as connection:
            row = connection.execute(select(schema.models).where(M.active)).first()
        return StoredModel(row.id, row.fingerprint, row.name, row.dimension) if row else None

    def register(self, fingerprint: str, name: str, dimension: int) -> StoredModel:
        """The number of a model, whether it was known or not."""

        def work(connection: Connection) -> int:
            known = connection.execute(select(M.id).where(M.fingerprint == fingerprint)).scalar()
            if known is not None:
                return int(known)
            row = insert(schema.models).values(fingerprint=fingerprint, name=name, dimension=dimension, active=False)
            return new_id(connection.execute(row))

        return StoredModel(self._database.write(work), fingerprint, name, dimension)

    def activate(self, model: StoredModel) -> None:
        """From now on this model answers; the vectors of the others are dropped."""

        def work(connection: Connection) -> None:
            connection.execute(update(schema.models).values(active=False))
            connection.execute(update(schema.models).where(M.id == model.id).values(active=True))
            connection.execute(schema.vectors.delete().where(schema.vectors.c.model_id != model.id))
            connection.execute(schema.models.delete().where(M.id != model.id))

        self._database.write(work)
