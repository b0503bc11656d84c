"""The accounts table."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from knowledge.errors import AccountNotFound, AccountTaken, InvalidKey
from knowledge.model import new_uid
from knowledge.store import schema
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

A = schema.accounts.c
_SELECT_ACCOUNTS = select(schema.accounts)
_ACCOUNT_EXISTS = select(A.id).where(A.id == bindparam("owner")).with_for_update(read=True, key_share=True)
"""PostgreSQL lets nobody delete the account until the transaction ends."""


@dataclass(frozen=True, slots=True)
class StoredAccount:
    id: int
    uid: UUID
    username: str
    password: str | None = field(repr=False)
    """Password hash; None if the account signs in only with API keys."""
    is_disabled: bool
    created_at: datetime


class AccountStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, username: str, password: str | None) -> StoredAccount:
        def work(connection: Connection) -> StoredAccount:
            if _find_by_username(connection, username) is not None:
                raise AccountTaken(f"Username '{username}' is already taken", username=username)
            values = {"uid": new_uid(), "username": username, "folded": fold_username(username), "password": password}
            made = insert(schema.accounts).values(**values, is_disabled=False, created_at=make_timestamp())
            return _get_account(connection, get_inserted_id(connection.execute(made)))

        return self._database.write(work)

    def find(self, username: str) -> StoredAccount | None:
        with self._database.read() as connection:
            return _find_by_username(connection, username)

    def require(self, username: str) -> StoredAccount:
        found = self.find(username)
        if found is None:
            raise not_found_error(username)
        return found

    def get(self, identity: int) -> StoredAccount | None:
        with self._database.read() as connection:
            row = connection.execute(_SELECT_ACCOUNTS.where(A.id == identity)).first()
        return make_account(row) if row else None

    def list_all(self) -> list[StoredAccount]:
        with self._database.read() as connection:
            return [make_account(row) for row in connection.execute(_SELECT_ACCOUNTS.order_by(A.id))]

    def set_disabled(self, identity: int, disabled: bool) -> StoredAccount:
        """Disable or enable an account; disabling ends its browser sessions for good."""

        def work(connection: Connection) -> StoredAccount:
            connection.execute(update(schema.accounts).where(A.id == identity).values(is_disabled=disabled))
            if disabled:
                delete_sessions_of(connection, identity)
            return _get_account(connection, identity)

        return self._database.write(work)


def delete_sessions_of(connection: Connection, account_id: int) -> None:
    """Delete the browser sessions and OAuth grants of an account in the transaction that changes or deletes it."""
    for table in (schema.browser_sessions, schema.oauth_tokens, schema.oauth_grants):
        connection.execute(delete(table).where(table.c.account_id == account_id))


def fold_username(username: str) -> str:
    """Return the case-insensitive form of a username for comparison."""
    return username.casefold()


def not_found_error(username: str) -> AccountNotFound:
    return AccountNotFound(f"Account '{username[:64]}' not found", username=username[:64])


def require_owner(connection: Connection, owner: int) -> None:
    """Reject rows for an account that was deleted meanwhile, because they could never be removed."""
    if owner > 0 and connection.execute(_ACCOUNT_EXISTS, {"owner": owner}).first() is None:
        raise InvalidKey("The account of this key was deleted")


def make_account(row: Any) -> StoredAccount:
    return StoredAccount(row.id, row.uid, row.username, row.password, row.is_disabled, parse_timestamp(row.created_at))


def _find_by_username(connection: Connection, username: str) -> StoredAccount | None:
    row = connection.execute(_SELECT_ACCOUNTS.where(A.folded == fold_username(username))).first()
    return make_account(row) if row else None


def _get_account(connection: Connection, identity: int) -> StoredAccount:
    row = connection.execute(_SELECT_ACCOUNTS.where(A.id == identity)).first()
    if row is None:
        raise AccountNotFound(f"Account {identity} was deleted")
    return make_account(row)
