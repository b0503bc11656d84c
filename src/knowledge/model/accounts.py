"""People who share a server: accounts, their keys, and what they let each other do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from knowledge.model.values import LOCAL_OWNER


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose shelves an engine looks at: one owner's, and single collections of others."""

    owner: int = LOCAL_OWNER
    collections: frozenset[int] = frozenset()
    """Readable, though another's."""
    writable: frozenset[int] = frozenset()
    """Those among them whose documents may be added, changed and removed."""

    def may_write(self, owner: int, collection: int) -> bool:
        return owner == self.owner or collection in self.writable


class CallerKind(StrEnum):
    LOCAL = "local"
    """Reached us without a key: over loopback, stdio or the command line."""
    KEY = "key"
    """Bears the operator's own key."""
    ACCOUNT = "account"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking."""

    kind: CallerKind = CallerKind.LOCAL
    owner: int = LOCAL_OWNER
    name: str = ""
    key: str | None = field(default=None, repr=False)
    """An account's own key, to be judged again by every verb, here or by a remote engine; never shown."""
    is_admin: bool = False

    @property
    def may_administer(self) -> bool:
        """The local owner's server is the local owner's; among accounts, the admins look after it."""
        return self.is_admin or self.kind is not CallerKind.ACCOUNT


ACCOUNT_KEY_PREFIX = "kn_"
"""How every key of an account begins, and no key of an operator should."""


@dataclass(frozen=True, slots=True)
class Account:
    id: int
    """Above zero: what an account has bears this number as its owner."""
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
    """The part of a key that may be shown, and tells it from the others."""
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key with its secret, which is shown this once and kept nowhere."""

    key: ApiKey
    username: str
    secret: str = field(repr=False)


class Permission(StrEnum):
    READ = "read"
    WRITE = "write"
    """To add, change and remove documents; the corpus itself stays its owner's."""


@dataclass(frozen=True, slots=True)
class Grant:
    username: str
    permission: Permission
