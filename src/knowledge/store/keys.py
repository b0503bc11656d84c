"""Keys of accounts: what is shown of them, and a digest of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from knowledge.errors import KeyNotFound
from knowledge.model import ApiKey
from knowledge.store import schema
from knowledge.store.accounts import StoredAccount, account_of, require_owner
from knowledge.store.database import Database, new_id
from knowledge.store.time import moment, moment_or_none, stamp

A, X = schema.accounts.c, schema.api_keys.c
_KEYS = select(schema.api_keys)
_BEARERS = select(
    schema.accounts,
    X.id.label("key_id"),
    X.digest,
    X.expires_at,
    X.last_used_at,
).join_from(schema.api_keys, schema.accounts, X.account_id == A.id)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A key by its prefix, with the account that it belongs to."""

    key_id: int
    digest: bytes
    expires_at: datetime | None
    last_used_at: datetime | None
    account: StoredAccount


class KeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, account_id: int, name: str, prefix: str, digest: bytes, expires_at: datetime | None) -> ApiKey:
        def work(connection: Connection) -> ApiKey:
            require_owner(connection, account_id)
            values = {"account_id": account_id, "name": name, "prefix": prefix, "digest": digest}
            until = None if expires_at is None else stamp(expires_at)
            made = insert(schema.api_keys).values(**values, created_at=stamp(), expires_at=until)
            return _key(connection.execute(_KEYS.where(X.id == new_id(connection.execute(made)))).one())

        return self._database.write(work)

    def of_account(self, account_id: int) -> list[ApiKey]:
        with self._database.read() as connection:
            return [_key(row) for row in connection.execute(_KEYS.where(X.account_id == account_id).order_by(X.id))]

    def bearer(self, prefix: str) -> Bearer | None:
        with self._database.read() as connection:
            row = connection.execute(_BEARERS.where(X.prefix == prefix)).first()
        if row is None:
            return None
        expires, used = moment_or_none(row.expires_at), moment_or_none(row.last_used_at)
        return Bearer(row.key_id, row.digest, expires, used, account_of(row))

    def used(self, key_id: int) -> None:
        now = update(schema.api_keys).where(X.id == key_id).values(last_used_at=stamp())
        self._database.write(lambda connection: connection.execute(now))

    def revoke(self, account_id: int, key_id: int) -> None:
        gone = delete(schema.api_keys).where(X.id == key_id, X.account_id == account_id)
        if not self._database.write(lambda connection: connection.execute(gone).rowcount):
            raise KeyNotFound(f"Key {key_id} not found", key_id=key_id)

    def revoke_all(self, account_id: int) -> None:
        gone = delete(schema.api_keys).where(X.account_id == account_id)
        self._database.write(lambda connection: connection.execute(gone))


def _key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        created_at=moment(row.created_at),
        expires_at=moment_or_none(row.expires_at),
        last_used_at=moment_or_none(row.last_used_at),
    )
