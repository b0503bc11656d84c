"""Grants of OAuth and their tokens, stored as SHA-256 digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from knowledge.errors import KeyNotFound
from knowledge.model.oauth import OAuthGrant
from knowledge.store import schema
from knowledge.store.accounts.accounts import StoredAccount, make_account, require_owner
from knowledge.store.accounts.oauth_clients import delete_unused_clients
from knowledge.store.database import Database, get_inserted_id
from knowledge.store.row_mapping import make_timestamp, parse_optional_timestamp, parse_timestamp

A, G, S, T = schema.accounts.c, schema.oauth_grants.c, schema.oauth_subjects.c, schema.oauth_tokens.c
_SELECT_TOKEN = (
    select(
        schema.accounts,
        T.kind,
        T.grant_id,
        T.scopes,
        T.details,
        T.expires_at,
        T.used_at,
        G.client_id,
        G.resource,
        G.last_used_at,
        G.scopes.label("grant_scopes"),
    )
    .join_from(schema.oauth_tokens, schema.accounts, T.account_id == A.id)
    .join(schema.oauth_grants, T.grant_id == G.id, isouter=True)
)


class TokenKind(StrEnum):
    LOGIN = "login"
    CODE = "code"
    ACCESS = "access"
    REFRESH = "refresh"


@dataclass(frozen=True, slots=True)
class NewToken:
    digest: bytes
    kind: TokenKind
    expires_at: datetime
    scopes: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewStoredGrant:
    account_id: int
    client_id: str
    client_name: str
    resource: str
    scopes: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token with its grant and account, found by its digest."""

    kind: TokenKind
    account: StoredAccount
    grant_id: int | None
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    grant_scopes: tuple[str, ...]
    details: Mapping[str, str]
    is_used: bool
    last_used_at: datetime | None


class OAuthGrantStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- tokens ---------------------------------------------------------------------------------

    def add_login(self, account: StoredAccount, new: NewToken) -> None:
        def work(connection: Connection) -> None:
            require_owner(connection, account.id)
            _delete_expired(connection)
            _insert_token(connection, account.id, None, new)

        self._database.write(work)

    def create(self, grant: NewStoredGrant, *tokens: NewToken) -> int:
        """Store a grant with its first tokens and return its id."""

        def work(connection: Connection) -> int:
            require_owner(connection, grant.account_id)
            _delete_expired(connection)
            made = insert(schema.oauth_grants).values(
                account_id=grant.account_id,
                client_id=grant.client_id,
                client_name=grant.client_name,
                resource=grant.resource,
                scopes=" ".join(grant.scopes),
                created_at=make_timestamp(),
                expires_at=make_timestamp(grant.expires_at),
            )
            grant_id = get_inserted_id(connection.execute(made))
            for token in tokens:
                _insert_token(connection, grant.account_id, grant_id, token)
            return grant_id

        return self._database.write(work)

    def find_token(self, digest: bytes, kind: TokenKind) -> StoredToken | None:
        """Return a token that has not expired, also one that was used."""
        with self._database.read() as connection:
            row = connection.execute(_SELECT_TOKEN.where(T.digest == digest, T.kind == kind)).first()
        return None if row is None or row.expires_at <= make_timestamp() else _make_token(row)

    def exchange(self, digest: bytes, grant_expires_at: datetime, *tokens: NewToken) -> bool:
        """Replace a code or a refresh token with new tokens, once; a second use deletes the grant with its tokens."""

        def work(connection: Connection) -> bool:
            mark = update(schema.oauth_tokens).where(T.digest == digest, T.used_at.is_(None))
            is_first = connection.execute(mark.values(used_at=make_timestamp())).rowcount == 1
            wanted = select(T.grant_id, T.account_id).where(T.digest == digest)
            row = connection.execute(wanted).first()
            if row is None:
                return False
            if not is_first:
                _delete_grant(connection, row.grant_id)
                return False
            until = make_timestamp(grant_expires_at)
            connection.execute(update(schema.oauth_grants).where(G.id == row.grant_id).values(expires_at=until))
            for token in tokens:
                _insert_token(connection, row.account_id, row.grant_id, token)
            return True

        return self._database.write(work)

    def add_token(self, account_id: int, grant_id: int, token: NewToken) -> None:
        self._database.write(lambda connection: _insert_token(connection, account_id, grant_id, token))

    def mark_used(self, grant_id: int) -> None:
        change = update(schema.oauth_grants).where(G.id == grant_id).values(last_used_at=make_timestamp())
        self._database.write(lambda connection: connection.execute(change))

    def end_login(self, digest: bytes) -> None:
        gone = delete(schema.oauth_tokens).where(T.digest == digest, T.kind == TokenKind.LOGIN)
        self._database.write(lambda connection: connection.execute(gone))

    def delete_expired(self) -> None:
        def work(connection: Connection) -> None:
            _delete_expired(connection)
            delete_unused_clients(connection)

        self._database.write(work)

    # -- grants ---------------------------------------------------------------------------------

    def list_of_account(self, account_id: int) -> list[OAuthGrant]:
        """Return the grants of an account whose client has got tokens, newest first."""
        has_tokens = select(T.digest).where(T.grant_id == G.id, T.kind != TokenKind.CODE).exists()
        wanted = select(schema.oauth_grants).where(G.account_id == account_id, G.expires_at > make_timestamp())
        with self._database.read() as connection:
            return [_make_grant(row) for row in connection.execute(wanted.where(has_tokens).order_by(G.id.desc()))]

    def find_of_client(self, account_id: int, client_id: str, resource: str) -> int | None:
        wanted = select(G.id).where(G.account_id == account_id, G.client_id == client_id, G.resource == resource)
        with self._database.read() as connection:
            return connection.execute(wanted.where(G.expires_at > make_timestamp()).order_by(G.id)).scalar()

    def delete_grant(self, grant_id: int) -> None:
        self._database.write(lambda connection: _delete_grant(connection, grant_id))

    def revoke(self, account_id: int, grant_id: int) -> None:
        def work(connection: Connection) -> bool:
            owned = select(G.id).where(G.id == grant_id, G.account_id == account_id)
            if connection.execute(owned).first() is None:
                return False
            _delete_grant(connection, grant_id)
            return True

        if not self._database.write(work):
            raise KeyNotFound(
                f"Token {grant_id} not found", hint="List the tokens to see their ids.", token_id=grant_id
            )

    def revoke_all(self, account_id: int) -> int:
        def work(connection: Connection) -> int:
            connection.execute(delete(schema.oauth_tokens).where(T.account_id == account_id))
            return connection.execute(delete(schema.oauth_grants).where(G.account_id == account_id)).rowcount

        return self._database.write(work)

    # -- subjects of another issuer -------------------------------------------------------------

    def find_subject(self, issuer: str, subject: str) -> StoredAccount | None:
        wanted = (
            select(schema.accounts)
            .join_from(schema.oauth_subjects, schema.accounts, S.account_id == A.id)
            .where(S.issuer == issuer, S.subject == subject)
        )
        with self._database.read() as connection:
            row = connection.execute(wanted).first()
        return make_account(row) if row else None

    def link_subject(self, issuer: str, subject: str, account_id: int) -> None:
        """Let the tokens of a subject act for an account, instead of another one before."""

        def work(connection: Connection) -> None:
            require_owner(connection, account_id)
            connection.execute(delete(schema.oauth_subjects).where(S.issuer == issuer, S.subject == subject))
            made = insert(schema.oauth_subjects).values(issuer=issuer, subject=subject, account_id=account_id)
            connection.execute(made)

        self._database.write(work)


def _delete_expired(connection: Connection) -> None:
    now = make_timestamp()
    connection.execute(delete(schema.oauth_tokens).where(T.expires_at <= now))
    ended = select(G.id).where(G.expires_at <= now)
    connection.execute(delete(schema.oauth_tokens).where(T.grant_id.in_(ended)))
    connection.execute(delete(schema.oauth_grants).where(G.expires_at <= now))


def _delete_grant(connection: Connection, grant_id: int | None) -> None:
    connection.execute(delete(schema.oauth_tokens).where(T.grant_id == grant_id))
    connection.execute(delete(schema.oauth_grants).where(G.id == grant_id))


def _insert_token(connection: Connection, account_id: int, grant_id: int | None, token: NewToken) -> None:
    connection.execute(
        insert(schema.oauth_tokens).values(
            digest=token.digest,
            kind=token.kind,
            account_id=account_id,
            grant_id=grant_id,
            scopes=" ".join(token.scopes),
            details=dict(token.details),
            expires_at=make_timestamp(token.expires_at),
        )
    )


def _make_token(row: Any) -> StoredToken:
    return StoredToken(
        kind=TokenKind(row.kind),
        account=make_account(row),
        grant_id=row.grant_id,
        client_id=row.client_id or "",
        resource=row.resource or "",
        scopes=tuple(row.scopes.split()),
        grant_scopes=tuple((row.grant_scopes or "").split()),
        details=row.details,
        is_used=row.used_at is not None,
        last_used_at=parse_optional_timestamp(row.last_used_at),
    )


def _make_grant(row: Any) -> OAuthGrant:
    return OAuthGrant(
        id=row.id,
        client_id=row.client_id,
        client_name=row.client_name,
        resource=row.resource,
        scopes=tuple(row.scopes.split()),
        created_at=parse_timestamp(row.created_at),
        last_used_at=parse_optional_timestamp(row.last_used_at),
        expires_at=parse_timestamp(row.expires_at),
    )
