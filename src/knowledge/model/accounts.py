"""People who share a server: accounts, their keys, and what they let each other do."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

ACCOUNT_KEY = "kn_"
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
