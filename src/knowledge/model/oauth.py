"""OAuth 2.1: clients, what an account has allowed them, and their tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from knowledge.model.accounts import Caller

ACCESS_TOKEN_PREFIX = "kna_"
REFRESH_TOKEN_PREFIX = "knr_"
CODE_PREFIX = "knc_"
LOGIN_PREFIX = "knl_"
ACCESS_SECONDS = 3600
REFRESH_DAYS = 60
"""A grant ends this long after its tokens were last refreshed."""
CODE_SECONDS = 60
LOGIN_SECONDS = 600


class OAuthScope(StrEnum):
    READ = "read"
    WRITE = "write"
    """Includes `read`."""
    ADMIN = "admin"
    """Includes `write`: also the account itself, and the server as far as the account may administer it."""


def expand_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the known scopes of a list and those that they include, from `read` upwards."""
    known = [*OAuthScope]
    highest = max((known.index(OAuthScope(scope)) for scope in scopes if scope in known), default=-1)
    return tuple(str(scope) for scope in known[: highest + 1])


@dataclass(frozen=True, slots=True)
class OAuthClient:
    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    is_document: bool
    """Whether `client_id` is the URL of a client ID metadata document."""


@dataclass(frozen=True, slots=True)
class NewOAuthGrant:
    """What a person has allowed on the consent page."""

    client_id: str
    client_name: str
    resource: str
    scopes: tuple[str, ...]
    redirect_uri: str
    code_challenge: str


@dataclass(frozen=True, slots=True)
class OAuthGrant:
    """A client that may act for an account, as lists show it."""

    id: int
    client_id: str
    client_name: str
    resource: str
    scopes: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """A login of the consent page, which lasts some minutes."""

    username: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CodeExchange:
    """A token request with an authorization code."""

    code: str = field(repr=False)
    client_id: str
    redirect_uri: str | None
    code_verifier: str = field(repr=False)
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class RefreshExchange:
    """A token request with a refresh token."""

    refresh_token: str = field(repr=False)
    client_id: str
    scopes: tuple[str, ...] | None = None
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """New tokens, which are not stored."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignSubject:
    """A verified token of another authorization server."""

    issuer: str
    subject: str
    name: str
    """What the issuer calls the user; the first choice for the name of a new account."""
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ActiveToken:
    """An access token that is neither expired nor revoked, and whom it acts for."""

    caller: Caller
    resource: str
    """The URL that it was issued for; it holds for this and the paths below it."""
