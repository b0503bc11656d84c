"""The part of the Engine protocol about OAuth; `engine/api.py` has the others."""

from __future__ import annotations

from typing import Protocol

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


class OAuthApi(Protocol):
    """The authorization server of OAuth: clients, consent, codes and tokens."""

    # -- for the operator alone: the surface that serves the authorization endpoints ------------

    async def register_client(self, name: str, redirect_uris: tuple[str, ...]) -> OAuthClient:
        """Register a client, which the surface has checked; it is forgotten if nobody allows it anything."""

    async def find_client(self, client_id: str) -> OAuthClient | None:
        """Return a client; one whose id is the URL of a metadata document is fetched, which can raise FetchFailed."""

    async def log_in(self, username: str, password: str) -> OAuthLogin:
        """Open a login of the consent page; an unknown name and a wrong password raise WrongPassword."""

    async def log_in_by_key(self, key: str) -> OAuthLogin:
        """Open a login of the account of an API key; raises WrongPassword."""

    async def find_login(self, token: str) -> OAuthLogin | None: ...

    async def approve(self, login: str, new: NewOAuthGrant) -> str:
        """Store what the person who logged in has allowed, and return the code; raises SessionEnded."""

    async def exchange_code(self, given: CodeExchange) -> IssuedTokens | None:
        """Return tokens for a code; None if it is not valid. A second use ends the grant."""

    async def refresh(self, given: RefreshExchange) -> IssuedTokens | None:
        """Return new tokens for a refresh token; None if it is not valid. A second use ends the grant."""

    async def revoke_token(self, token: str, client_id: str) -> None:
        """End the grant of a client's token; an unknown token is ignored."""

    async def find_token(self, token: str) -> ActiveToken | None:
        """Return whom an access token acts for; None if it has expired, was revoked or is unknown."""

    async def admit_subject(self, given: ForeignSubject, create: bool) -> str | None:
        """Return an access token for a verified token of another issuer; None if its subject has no account."""

    async def link_subject(self, username: str, issuer: str, subject: str) -> None:
        """Let tokens of another issuer's subject act for an account."""

    # -- the caller's own grants ----------------------------------------------------------------

    async def list_own(self) -> list[OAuthGrant]: ...

    async def revoke(self, grant_id: int) -> None: ...

    async def revoke_all(self) -> int:
        """End all grants and return their number."""

    # -- administration: for the local owner and admins -----------------------------------------

    async def list_of(self, username: str) -> list[OAuthGrant]: ...

    async def revoke_of(self, username: str, grant_id: int) -> None: ...

    async def revoke_all_of(self, username: str) -> int: ...
