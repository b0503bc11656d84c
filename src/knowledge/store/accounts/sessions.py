"""Browser sessions, stored as the SHA-256 digest of their token."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from knowledge.errors import SessionNotFound, WrongPassword
from knowledge.model.sessions import BrowserSession
from knowledge.store import schema
from knowledge.store.accounts.accounts import StoredAccount, make_account, require_owner
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.row_mapping import make_timestamp, parse_optional_timestamp, parse_timestamp

A, B, X = schema.accounts.c, schema.browser_sessions.c, schema.api_keys.c
_SELECT_SESSIONS = select(schema.browser_sessions)
_SELECT_ACTIVE = (
    select(
        schema.accounts,
        B.id.label("session_id"),
        B.account_id,
        B.api_key_id,
        B.operator_proof,
        B.stay,
        B.user_agent,
        B.created_at.label("session_created_at"),
        B.last_used_at.label("session_last_used_at"),
        B.expires_at.label("session_expires_at"),
        X.id.label("key_id"),
        X.expires_at.label("key_expires_at"),
    )
    .join_from(schema.browser_sessions, schema.accounts, B.account_id == A.id, isouter=True)
    .join(schema.api_keys, B.api_key_id == X.id, isouter=True)
)


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to store; without an account it is the operator's."""

    digest: bytes
    expires_at: datetime
    stay: bool
    user_agent: str
    account: StoredAccount | None = None
    api_key_id: int | None = None
    """The API key that opened the session."""
    operator_proof: bytes | None = None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session with its account, found by the digest of its token."""

    session: BrowserSession
    account: StoredAccount | None
    operator_proof: bytes | None
    key_expires_at: datetime | None


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, new: NewSession, limit: int) -> BrowserSession:
        """Store a session, and delete expired ones and the owner's oldest beyond `limit`."""

        def work(connection: Connection) -> BrowserSession:
            _check_account(connection, new)
            _delete_expired(connection)
            made = _insert_session(connection, new)
            owned = _is_of(None if new.account is None else new.account.id)
            newest = select(B.id).where(owned).order_by(B.id.desc()).limit(limit)
            connection.execute(delete(schema.browser_sessions).where(owned, B.id.not_in(newest)))
            return made

        return self._database.write(work)

    def find(self, digest: bytes) -> StoredSession | None:
        """Return a session that has not expired and whose account and API key still exist."""
        with self._database.read() as connection:
            row = connection.execute(_SELECT_ACTIVE.where(B.digest == digest)).first()
        if row is None or row.session_expires_at <= make_timestamp():
            return None
        is_orphan = row.account_id is not None and row.id is None
        if is_orphan or (row.api_key_id is not None and row.key_id is None):
            return None
        session = BrowserSession(
            id=row.session_id,
            created_at=parse_timestamp(row.session_created_at),
            last_used_at=parse_timestamp(row.session_last_used_at),
            expires_at=parse_timestamp(row.session_expires_at),
            stay=row.stay,
            user_agent=row.user_agent,
        )
        account = None if row.account_id is None else make_account(row)
        return StoredSession(session, account, row.operator_proof, parse_optional_timestamp(row.key_expires_at))

    def extend(self, session_id: int, used_at: datetime, expires_at: datetime) -> None:
        times = {"last_used_at": make_timestamp(used_at), "expires_at": make_timestamp(expires_at)}
        change = update(schema.browser_sessions).where(B.id == session_id).values(**times)
        self._database.write(lambda connection: connection.execute(change))

    def list_of_owner(self, account_id: int | None) -> list[BrowserSession]:
        """Return the sessions of an account, or the operator's, newest first."""
        wanted = _SELECT_SESSIONS.where(_is_of(account_id), B.expires_at > make_timestamp()).order_by(B.id.desc())
        with self._database.read() as connection:
            return [_make_session(row) for row in connection.execute(wanted)]

    def revoke(self, account_id: int | None, session_id: int) -> None:
        gone = delete(schema.browser_sessions).where(B.id == session_id, _is_of(account_id))
        if not self._database.write(lambda connection: connection.execute(gone).rowcount):
            raise SessionNotFound(f"Session {session_id} not found", session_id=session_id)

    def revoke_all(self, account_id: int | None) -> int:
        """Delete the sessions of an account, or the operator's, and return their number."""
        gone = delete(schema.browser_sessions).where(_is_of(account_id))
        return int(self._database.write(lambda connection: connection.execute(gone).rowcount))

    def end(self, digest: bytes) -> None:
        gone = delete(schema.browser_sessions).where(B.digest == digest)
        self._database.write(lambda connection: connection.execute(gone))

    def delete_expired(self) -> None:
        self._database.write(_delete_expired)


def _check_account(connection: Connection, new: NewSession) -> None:
    """Refuse an account that was deleted, disabled or given another password since the login was verified."""
    if new.account is None:
        return
    require_owner(connection, new.account.id)
    # Locked, so that a change of the password waits and then ends the new session too.
    locked = select(A.password, A.is_disabled).where(A.id == new.account.id).with_for_update(read=True)
    row = connection.execute(locked).one()
    if row.is_disabled or row.password != new.account.password:
        raise WrongPassword("The username, the password or the API key is wrong")


def _insert_session(connection: Connection, new: NewSession) -> BrowserSession:
    now = make_timestamp()
    made = insert(schema.browser_sessions).values(
        account_id=None if new.account is None else new.account.id,
        api_key_id=new.api_key_id,
        digest=new.digest,
        operator_proof=new.operator_proof,
        stay=new.stay,
        user_agent=new.user_agent,
        created_at=now,
        last_used_at=now,
        expires_at=make_timestamp(new.expires_at),
    )
    identity = get_inserted_id(connection.execute(made))
    return _make_session(connection.execute(_SELECT_SESSIONS.where(B.id == identity)).one())


def _delete_expired(connection: Connection) -> None:
    connection.execute(delete(schema.browser_sessions).where(B.expires_at <= make_timestamp()))


def _is_of(account_id: int | None) -> ColumnElement[bool]:
    return B.account_id.is_(None) if account_id is None else B.account_id == account_id


def _make_session(row: Any) -> BrowserSession:
    return BrowserSession(
        id=row.id,
        created_at=parse_timestamp(row.created_at),
        last_used_at=parse_timestamp(row.last_used_at),
        expires_at=parse_timestamp(row.expires_at),
        stay=row.stay,
        user_agent=row.user_agent,
    )
