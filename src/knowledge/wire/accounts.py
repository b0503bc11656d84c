"""JSON of accounts and API keys; the secret of a key is sent only in the answer that creates it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter

from pydantic import Field

from knowledge.errors import InvalidParameter
from knowledge.model import Account, ApiKey, IssuedKey, Json
from knowledge.model.accounts import AccountUsage
from knowledge.wire.requests import Body
from knowledge.wire.values import dump_timestamp_or_none, load_date, load_ref


class CredentialsBody(Body):
    username: str = Field(description="3 to 64 letters, digits, dots, dashes or underscores; case does not matter.")
    password: str = Field(description="8 to 1024 characters.")


class NewAccountBody(Body):
    username: str = Field(description="3 to 64 letters, digits, dots, dashes or underscores; case does not matter.")
    password: str | None = Field(None, description="Without a password the account can sign in only with API keys.")


class AccountEditBody(Body):
    is_disabled: bool


class NewKeyBody(Body):
    name: str = Field("key", description="Purpose of the key, shown in lists.")
    expires_at: str | None = Field(None, description="Expiry date or time (UTC); without it the key does not expire.")

    def parse_expiry(self) -> datetime | None:
        return None if self.expires_at is None else load_date(self.expires_at, "expires_at", end=True)


class PasswordBody(Body):
    old_password: str
    new_password: str = Field(description="8 to 1024 characters.")


class DeleteAccountBody(Body):
    password: str


def load_key_id(text: str) -> int:
    ref = load_ref(text)
    if not isinstance(ref, int):
        raise InvalidParameter(f"'id' is not a key number: {text[:40]!r}", parameter="id")
    return ref


@dataclass(frozen=True)
class AccountsShape:
    """All accounts."""

    accounts: tuple[Account, ...]


@dataclass(frozen=True)
class ApiKeysShape:
    """The API keys of an account, without secrets."""

    api_keys: tuple[ApiKey, ...]


@dataclass(frozen=True)
class IssuedKeyShape(ApiKey):
    """A new API key; `api_key` is the secret and is not shown again."""

    username: str
    api_key: str

    @classmethod
    def from_issued(cls, issued: IssuedKey) -> IssuedKeyShape:
        return cls(*(*_KEY_VALUES(issued.key), issued.username, issued.secret))

    def to_issued(self) -> IssuedKey:
        return IssuedKey(ApiKey(*_KEY_VALUES(self)), self.username, self.api_key)


@dataclass(frozen=True)
class RateLimitShape:
    """A rate limit of the caller and how much of it is used."""

    name: str
    """The class of call: query, list, resource, upload, management, typing or page."""
    limit: int
    seconds: int
    """Length of the window."""
    used: int
    resets_at: datetime
    """When the oldest call leaves the window."""


@dataclass(frozen=True)
class UsageShape:
    """What an account stores, its quota, and its rate limits in this kind of login; null is no limit."""

    documents: int
    bytes: int
    max_documents: int | None
    max_bytes: int | None
    rate_limits: tuple[RateLimitShape, ...] = ()

    def to_usage(self) -> AccountUsage:
        return AccountUsage(self.documents, self.bytes, self.max_documents, self.max_bytes)


_KEY_VALUES = attrgetter(*(each.name for each in fields(ApiKey)))


def dump_new_key(name: str, expires_at: datetime | None) -> Json:
    return {"name": name, "expires_at": dump_timestamp_or_none(expires_at)}
