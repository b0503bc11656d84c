"""Accounts, API keys, callers and permissions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from knowledge.model.values import LOCAL_OWNER, Access


@dataclass(frozen=True, slots=True)
class Scope:
    """The collections that an engine may use: all of one owner, and single ones of others."""

    owner: int = LOCAL_OWNER
    collections: frozenset[int] = frozenset()
    """Readable collections of other owners."""
    writable: frozenset[int] = frozenset()
    """Subset of `collections` in which documents may be added, edited and removed."""

    def may_write(self, owner: int, collection: int) -> bool:
        return owner == self.owner or collection in self.writable

    def find_access(self, owner: int, collection: int) -> Access:
        if owner == self.owner:
            return Access.OWN
        return Access.WRITE if collection in self.writable else Access.READ


class CallerKind(StrEnum):
    LOCAL = "local"
    """Connected without a key: loopback, stdio or command line."""
    KEY = "key"
    """Authenticated with the operator's key."""
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated origin of a request."""

    kind: CallerKind = CallerKind.LOCAL
    owner: int = LOCAL_OWNER
    name: str = ""
    key: str | None = field(default=None, repr=False)
    """API key of an account; every engine call verifies it again, also a remote engine's."""
    is_admin: bool = False
    session: str | None = field(default=None, repr=False)
    """Token of a browser session; every engine call verifies it again, also a remote engine's."""
    token: str | None = field(default=None, repr=False)
    """Access token of OAuth; every engine call verifies it again, also a remote engine's."""
    scopes: frozenset[str] | None = None
    """What an access token permits: `read`, `write` and `admin`; None for callers that have no scopes."""

    @property
    def may_administer(self) -> bool:
        """Whether the caller may administer the server: an admin account, or any caller that is not an account."""
        return self.is_admin or self.kind is not CallerKind.ACCOUNT


ACCOUNT_KEY_PREFIX = "kn_"
"""Prefix of account keys; an operator's key must not start with it."""


@dataclass(frozen=True, slots=True)
class Account:
    id: int
    """Greater than zero; used as owner number of collections, documents and jobs."""
    uid: UUID
    username: str
    is_admin: bool
    is_disabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: int
    name: str
    prefix: str
    """Public part of the key, which identifies it in lists."""
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key with its secret, which is shown only once and not stored."""

    key: ApiKey
    username: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccountUsage:
    """What an account stores, queued uploads included, and its quota."""

    documents: int
    bytes: int
    max_documents: int | None
    """None is no limit."""
    max_bytes: int | None


class Permission(StrEnum):
    READ = "read"
    WRITE = "write"
    """Add, edit and remove documents; only the owner may edit or delete the corpus itself."""


@dataclass(frozen=True, slots=True)
class Grant:
    username: str
    permission: Permission
