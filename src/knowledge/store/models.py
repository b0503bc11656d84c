"""Embedding models: the active one, the next one, and those with stored vectors."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from knowledge.store import schema
from knowledge.store.database import Database, get_inserted_id

M, S = schema.models.c, schema.settings.c
CURRENT_SPEC_NAME, NEXT_SPEC_NAME = "embedding", "embedding_next"
"""Names in the settings table."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    id: int
    fingerprint: str
    name: str
    dimension: int


class ModelStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get_active(self) -> StoredModel | None:
        with self._database.read() as connection:
            row = connection.execute(select(schema.models).where(M.active)).first()
        return StoredModel(row.id, row.fingerprint, row.name, row.dimension) if row else None

    def register(self, fingerprint: str, name: str, dimension: int) -> StoredModel:
        """Return the model with this fingerprint, inserting it if needed."""

        def work(connection: Connection) -> int:
            known = connection.execute(select(M.id).where(M.fingerprint == fingerprint)).scalar()
            if known is not None:
                return int(known)
            row = insert(schema.models).values(fingerprint=fingerprint, name=name, dimension=dimension, active=False)
            return get_inserted_id(connection.execute(row))

        return StoredModel(self._database.write(work), fingerprint, name, dimension)

    def activate(self, model: StoredModel, spec: str) -> None:
        """Make a model the active one and delete the vectors of all others."""

        # The rows of other models stay, because a running job may still write vectors for them.
        def work(connection: Connection) -> None:
            connection.execute(update(schema.models).values(active=False))
            connection.execute(update(schema.models).where(M.id == model.id).values(active=True))
            connection.execute(schema.vectors.delete().where(schema.vectors.c.model_id != model.id))
            _set_setting(connection, CURRENT_SPEC_NAME, spec)
            connection.execute(delete(schema.settings).where(S.name == NEXT_SPEC_NAME, S.value == spec))

        self._database.write(work)

    # -- model specifications --------------------------------------------------------------------

    def get_spec(self) -> str | None:
        """Return the specification of the model of the stored vectors, or None without vectors."""
        with self._database.read() as connection:
            if connection.execute(select(schema.vectors.c.model_id).limit(1)).first() is None:
                return None
            return connection.execute(select(S.value).where(S.name == CURRENT_SPEC_NAME)).scalar()

    def set_spec(self, spec: str) -> None:
        """Store the specification of the active model if it changed."""
        if self._get_setting(CURRENT_SPEC_NAME) != spec:
            self._database.write(lambda connection: _set_setting(connection, CURRENT_SPEC_NAME, spec))

    def get_next_spec(self) -> str | None:
        """Return the specification of the model whose vectors are being computed."""
        return self._get_setting(NEXT_SPEC_NAME)

    def set_next_spec(self, spec: str) -> None:
        self._database.write(lambda connection: _set_setting(connection, NEXT_SPEC_NAME, spec))

    def _get_setting(self, name: str) -> str | None:
        with self._database.read() as connection:
            return connection.execute(select(S.value).where(S.name == name)).scalar()


def _set_setting(connection: Connection, name: str, value: str) -> None:
    connection.execute(delete(schema.settings).where(S.name == name))
    connection.execute(insert(schema.settings).values(name=name, value=value))
