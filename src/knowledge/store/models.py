"""Embedding models: the active one, the next one, and those with stored vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from knowledge.store import schema
from knowledge.store.cluster.leases import require_lease
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.prepared_statements import PreparedStatement

M, S = schema.models.c, schema.settings.c
CURRENT_SPEC_NAME, NEXT_SPEC_NAME = "embedding", "embedding_next"
"""Names in the settings table."""
_FIND_BY_FINGERPRINT = PreparedStatement(select(M.id).where(M.fingerprint == bindparam("fingerprint")))


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
            known = _FIND_BY_FINGERPRINT.fetch_scalar(connection, {"fingerprint": fingerprint})
            if known is not None:
                return int(known)
            row = insert(schema.models).values(fingerprint=fingerprint, name=name, dimension=dimension, active=False)
            return get_inserted_id(connection.execute(row))

        with self._database.read() as connection:  # every job asks, and only the first one of a model inserts it
            known = _FIND_BY_FINGERPRINT.fetch_scalar(connection, {"fingerprint": fingerprint})
        identity = self._database.write(work) if known is None else int(known)
        return StoredModel(identity, fingerprint, name, dimension)

    def activate(self, model: StoredModel, spec: str, lease: tuple[str, int] | None = None) -> None:
        """Make a model the active one and delete the vectors of all others.

        With a lease, which another server must not have taken, other servers are still using the vectors of the old
        model: `drop_unused_vectors` deletes them later.
        """

        # The rows of other models stay, because a running job may still write vectors for them.
        def work(connection: Connection) -> None:
            if lease is not None:
                require_lease(connection, *lease)
            connection.execute(update(schema.models).values(active=False))
            connection.execute(update(schema.models).where(M.id == model.id).values(active=True))
            if lease is None:
                connection.execute(schema.vectors.delete().where(schema.vectors.c.model_id != model.id))
            connection.execute(update(schema.documents).values(vector_count=_count_vectors(model.id)))
            _set_setting(connection, CURRENT_SPEC_NAME, spec)
            connection.execute(delete(schema.settings).where(S.name == NEXT_SPEC_NAME, S.value == spec))

        self._database.write(work)

    def drop_unused_vectors(self) -> int:
        """Delete the vectors of models that are not active, unless the next model is being prepared."""
        others = select(M.id).where(~M.active)
        chosen = select(S.name).where(S.name == NEXT_SPEC_NAME)

        def work(connection: Connection) -> int:
            has_active = connection.execute(select(M.id).where(M.active)).first() is not None
            if not has_active or connection.execute(chosen).first() is not None:
                return 0
            unused = delete(schema.vectors).where(schema.vectors.c.model_id.in_(others))
            return int(connection.execute(unused).rowcount)

        return self._database.write(work)

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


def _count_vectors(model_id: int) -> Any:
    """Return the subquery for the number of vectors of a document."""
    chunks, vectors, documents = schema.chunks.c, schema.vectors.c, schema.documents.c
    return (
        select(func.count())
        .select_from(schema.chunks.join(schema.vectors, vectors.chunk_id == chunks.id))
        .where(chunks.content_id == documents.content_id, vectors.model_id == model_id)
        .scalar_subquery()
    )
