"""JSON of OAuth: the grants of an account, and what processes of the operator send each other."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from knowledge.model import Caller, CallerKind
from knowledge.model.oauth import (
    ActiveToken,
    CodeExchange,
    ForeignSubject,
    IssuedTokens,
    NewOAuthGrant,
    OAuthClient,
    OAuthGrant,
    OAuthLogin,
    RefreshExchange,
)
from knowledge.wire.requests import Body

MAX_CHARS = 4000


@dataclass(frozen=True)
class OAuthGrantsShape:
    """Clients of OAuth that may act for an account, newest first."""

    tokens: tuple[OAuthGrant, ...]


@dataclass(frozen=True)
class RevokedGrantsShape:
    revoked: int


# -- between processes of the operator -----------------------------------------------------------


class OAuthClientIdBody(Body):
    client_id: str = Field(max_length=MAX_CHARS)


class NewOAuthClientBody(Body):
    name: str = Field(max_length=MAX_CHARS)
    redirect_uris: list[str]


class OAuthLoginBody(Body):
    username: str = Field("", max_length=MAX_CHARS)
    password: str = Field("", max_length=MAX_CHARS)
    api_key: str | None = Field(None, max_length=MAX_CHARS, description="Instead of username and password.")


class OAuthTokenBody(Body):
    token: str = Field(max_length=MAX_CHARS)


class ApprovalBody(Body):
    login: str = Field(max_length=MAX_CHARS)
    client_id: str
    client_name: str
    resource: str
    scopes: list[str]
    redirect_uri: str
    code_challenge: str

    def to_grant(self) -> NewOAuthGrant:
        return NewOAuthGrant(
            self.client_id,
            self.client_name,
            self.resource,
            tuple(self.scopes),
            self.redirect_uri,
            self.code_challenge,
        )


class CodeExchangeBody(Body):
    code: str
    client_id: str
    redirect_uri: str | None
    code_verifier: str
    resource: str | None

    def to_exchange(self) -> CodeExchange:
        return CodeExchange(self.code, self.client_id, self.redirect_uri, self.code_verifier, self.resource)


class RefreshExchangeBody(Body):
    refresh_token: str
    client_id: str
    scopes: list[str] | None
    resource: str | None

    def to_exchange(self) -> RefreshExchange:
        scopes = None if self.scopes is None else tuple(self.scopes)
        return RefreshExchange(self.refresh_token, self.client_id, scopes, self.resource)


class RevocationBody(OAuthTokenBody):
    client_id: str


class SubjectLinkBody(Body):
    issuer: str = Field(max_length=MAX_CHARS)
    subject: str = Field(max_length=MAX_CHARS)


class ForeignSubjectBody(SubjectLinkBody):
    name: str
    client_id: str
    resource: str
    scopes: list[str]
    expires_at: datetime = Field(strict=False)
    create: bool

    def to_subject(self) -> ForeignSubject:
        return ForeignSubject(
            self.issuer, self.subject, self.name, self.client_id, self.resource, tuple(self.scopes), self.expires_at
        )


@dataclass(frozen=True)
class FoundClientShape:
    client: OAuthClient | None


@dataclass(frozen=True)
class FoundLoginShape:
    login: OAuthLogin | None


@dataclass(frozen=True)
class OAuthSecretShape:
    """A code or a token; null if there is none."""

    secret: str | None


@dataclass(frozen=True)
class IssuedTokensShape:
    """New tokens; null if the request was not valid."""

    tokens: IssuedTokens | None


@dataclass(frozen=True)
class FoundTokenShape:
    """Whom an access token acts for; owner 0 means that it is not valid."""

    owner: int = 0
    username: str = ""
    is_admin: bool = False
    scopes: tuple[str, ...] = ()
    resource: str = ""

    @classmethod
    def from_active(cls, found: ActiveToken | None) -> FoundTokenShape:
        if found is None:
            return cls()
        caller = found.caller
        return cls(caller.owner, caller.name, caller.is_admin, tuple(sorted(caller.scopes or ())), found.resource)

    def to_active(self, token: str) -> ActiveToken | None:
        if self.owner == 0:
            return None
        scopes = frozenset(self.scopes)
        kind = CallerKind.ACCOUNT
        caller = Caller(kind, self.owner, self.username, is_admin=self.is_admin, token=token, scopes=scopes)
        return ActiveToken(caller, self.resource)
