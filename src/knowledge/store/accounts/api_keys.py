"""The API keys of accounts, stored as prefix and SHA-256 digest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from knowledge.errors import KeyNotFound, WrongPassword
from knowledge.model import ApiKey
from knowledge.store import schema
from knowledge.store.accounts.accounts import StoredAccount, delete_sessions_of, make_account, require_owner
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.row_mapping import make_timestamp, parse_optional_timestamp, parse_timestamp

A, X = schema.accounts.c, schema.api_keys.c
_SELECT_KEYS = select(schema.api_keys)
_SELECT_WITH_ACCOUNT = select(
    schema.accounts,
    X.id.label("key_id"),
    X.digest,
    X.expires_at,
    X.last_used_at,
).join_from(schema.api_keys, schema.accounts, X.account_id == A.id)


@dataclass(frozen=True, slots=True)
class KeyWithAccount:
    """A key and its account, found by the prefix of the key."""

    key_id: int
    digest: bytes
    expires_at: datetime | None
    last_used_at: datetime | None
    account: StoredAccount


@dataclass(frozen=True, slots=True)
class NewKey:
    account_id: int
    name: str
    prefix: str
    digest: bytes
    expires_at: datetime | None


class KeyStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, new: NewKey) -> ApiKey:
        def work(connection: Connection) -> ApiKey:
            require_owner(connection, new.account_id)
            return _insert_key(connection, new, is_login=False)

        return self._database.write(work)

    def create_at_login(self, account: StoredAccount, new: NewKey, limit: int) -> ApiKey:
        """Create a login key and delete the oldest login keys beyond `limit`."""

        def work(connection: Connection) -> ApiKey:
            # The password may have changed since it was verified; no login key may survive that change.
            wanted = select(A.password, A.is_disabled).where(A.id == account.id).with_for_update(key_share=True)
            row = connection.execute(wanted).first()
            if row is None or row.is_disabled or row.password != account.password:
                raise WrongPassword("The username or the password is wrong")
            made = _insert_key(connection, new, is_login=True)
            newest = select(X.id).where(*_is_login_of(account.id)).order_by(X.id.desc()).limit(limit)
            connection.execute(delete(schema.api_keys).where(*_is_login_of(account.id), X.id.not_in(newest)))
            return made

        return self._database.write(work)

    def list_of_account(self, account_id: int) -> list[ApiKey]:
        with self._database.read() as connection:
            return [
                _make_key(row)
                for row in connection.execute(_SELECT_KEYS.where(X.account_id == account_id).order_by(X.id))
            ]

    def find_by_prefix(self, prefix: str) -> KeyWithAccount | None:
        with self._database.read() as connection:
            row = connection.execute(_SELECT_WITH_ACCOUNT.where(X.prefix == prefix)).first()
        if row is None:
            return None
        expires, used = parse_optional_timestamp(row.expires_at), parse_optional_timestamp(row.last_used_at)
        return KeyWithAccount(row.key_id, row.digest, expires, used, make_account(row))

    def mark_used(self, key_id: int) -> None:
        now = update(schema.api_keys).where(X.id == key_id).values(last_used_at=make_timestamp())
        self._database.write(lambda connection: connection.execute(now))

    def rotate(self, account_id: int, key_id: int, new: NewKey) -> ApiKey:
        """Replace prefix and digest of a key; its name and its expiry stay."""
        values = {"prefix": new.prefix, "digest": new.digest, "created_at": make_timestamp(), "last_used_at": None}
        own = update(schema.api_keys).where(X.id == key_id, X.account_id == account_id).values(**values)

        def work(connection: Connection) -> ApiKey:
            if not connection.execute(own).rowcount:
                raise _not_found_error(key_id)
            return _make_key(connection.execute(_SELECT_KEYS.where(X.id == key_id)).one())

        return self._database.write(work)

    def revoke(self, account_id: int, key_id: int) -> None:
        gone = delete(schema.api_keys).where(X.id == key_id, X.account_id == account_id)
        if not self._database.write(lambda connection: connection.execute(gone).rowcount):
            raise _not_found_error(key_id)

    def change_password(self, account_id: int, password: str) -> None:
        """Store a new password hash, revoke all login keys and end all sessions; keys created by hand stay valid."""

        def work(connection: Connection) -> None:
            connection.execute(update(schema.accounts).where(A.id == account_id).values(password=password))
            connection.execute(delete(schema.api_keys).where(*_is_login_of(account_id)))
            delete_sessions_of(connection, account_id)

        self._database.write(work)


def _not_found_error(key_id: int) -> KeyNotFound:
    return KeyNotFound(f"Key {key_id} not found", key_id=key_id)


def _is_login_of(account_id: int) -> tuple[ColumnElement[bool], ...]:
    return X.account_id == account_id, X.is_login


def _insert_key(connection: Connection, new: NewKey, *, is_login: bool) -> ApiKey:
    made = insert(schema.api_keys).values(
        account_id=new.account_id,
        name=new.name,
        prefix=new.prefix,
        digest=new.digest,
        created_at=make_timestamp(),
        expires_at=None if new.expires_at is None else make_timestamp(new.expires_at),
        is_login=is_login,
    )
    return _make_key(connection.execute(_SELECT_KEYS.where(X.id == get_inserted_id(connection.execute(made)))).one())


def _make_key(row: Any) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name,
        prefix=row.prefix,
        created_at=parse_timestamp(row.created_at),
        expires_at=parse_optional_timestamp(row.expires_at),
        last_used_at=parse_optional_timestamp(row.last_used_at),
    )
