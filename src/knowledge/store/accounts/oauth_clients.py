"""Clients of OAuth: registered ones, and cached client ID metadata documents."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select

from knowledge.model.oauth import OAuthClient
from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.row_mapping import make_timestamp

C, G = schema.oauth_clients.c, schema.oauth_grants.c
_HAS_GRANT = select(G.id).where(G.client_id == C.client_id).exists()


class OAuthClientStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, client: OAuthClient, expires_at: datetime, limit: int) -> None:
        """Store a client in place of an earlier one, and delete expired ones and the oldest unused beyond `limit`."""
        row = {
            "client_id": client.client_id,
            "name": client.name,
            "redirect_uris": [*client.redirect_uris],
            "is_document": client.is_document,
            "created_at": make_timestamp(),
            "expires_at": make_timestamp(expires_at),
        }

        def work(connection: Connection) -> None:
            delete_unused_clients(connection)
            connection.execute(delete(schema.oauth_clients).where(C.client_id == client.client_id))
            excess = (connection.execute(select(func.count()).select_from(schema.oauth_clients)).scalar() or 0) - limit
            if excess >= 0:
                oldest = select(C.client_id).where(~_HAS_GRANT).order_by(C.created_at).limit(excess + 1)
                connection.execute(delete(schema.oauth_clients).where(C.client_id.in_(oldest)))
            connection.execute(insert(schema.oauth_clients).values(**row))

        self._database.write(work)

    def find(self, client_id: str) -> OAuthClient | None:
        """Return a registered client, or a document that is fresh enough."""
        with self._database.read() as connection:
            row = connection.execute(select(schema.oauth_clients).where(C.client_id == client_id)).first()
        if row is None or (row.is_document and row.expires_at <= make_timestamp()):
            return None
        return OAuthClient(row.client_id, row.name, tuple(row.redirect_uris), row.is_document)


def delete_unused_clients(connection: Connection) -> None:
    """Delete documents that must be fetched again, and registrations that have no grant and have expired."""
    expired = C.expires_at <= make_timestamp()
    connection.execute(delete(schema.oauth_clients).where(expired, C.is_document | ~_HAS_GRANT))
