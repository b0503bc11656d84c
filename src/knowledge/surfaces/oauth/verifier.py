"""Identifies callers by their access tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey
from knowledge.model import Caller
from knowledge.model.oauth import ACCESS_TOKEN_PREFIX
from knowledge.surfaces.oauth.resources import ProtectedResources

if TYPE_CHECKING:
    from knowledge.surfaces.oauth.issuer import ForeignIssuer


def make_token_verifier(engine: Engine, resources: ProtectedResources, settings: Settings) -> TokenVerifier | None:
    """Build the verifier, or None if OAuth is off."""
    if not settings.oauth:
        return None
    if not settings.oauth_issuer:
        return TokenVerifier(engine, resources)
    from knowledge.surfaces.oauth.issuer import ForeignIssuer  # imports the cryptography, which only this needs

    audience, create = settings.oauth_audience.strip(), settings.oauth_create_accounts
    return TokenVerifier(
        engine, resources, ForeignIssuer(engine, resources, settings.oauth_issuer, audience, create=create)
    )


class TokenVerifier:
    def __init__(self, engine: Engine, resources: ProtectedResources, issuer: ForeignIssuer | None = None) -> None:
        """With an issuer elsewhere its tokens are accepted instead of our own."""
        self._engine, self._resources, self._issuer = engine, resources, issuer

    def recognizes(self, key: str) -> bool:
        """Whether a bearer token has the form of an access token."""
        return self._issuer.recognizes(key) if self._issuer is not None else key.startswith(ACCESS_TOKEN_PREFIX)

    async def identify(self, token: str, path: str) -> Caller:
        """Return the caller of a token that was issued for this path or one above it."""
        if self._issuer is not None:
            token = await self._issuer.exchange(token, path)
        found = await self._engine.oauth.find_token(token)
        if found is None:
            raise invalid_token_error("The access token has expired, was revoked or is not valid")
        if not self._resources.covers(found.resource, path):
            raise invalid_token_error(f"The access token was issued for {found.resource} and does not hold here")
        return found.caller


def invalid_token_error(message: str) -> ExpiredKey:
    return ExpiredKey(message, hint="Refresh the token, or authorize the client again for this address.")
