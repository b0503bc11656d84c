"""Identifies callers by their access tokens."""

from __future__ import annotations

from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey
from knowledge.model import Caller
from knowledge.model.oauth import ACCESS_TOKEN_PREFIX
from knowledge.surfaces.oauth.resources import ProtectedResources


class TokenVerifier:
    def __init__(self, engine: Engine, resources: ProtectedResources) -> None:
        self._engine, self._resources = engine, resources

    def recognizes(self, key: str) -> bool:
        """Whether a bearer token has the form of an access token."""
        return key.startswith(ACCESS_TOKEN_PREFIX)

    async def identify(self, token: str, path: str) -> Caller:
        """Return the caller of a token that was issued for this path or one above it."""
        found = await self._engine.oauth.find_token(token)
        if found is None:
            raise invalid_token_error("The access token has expired, was revoked or is not valid")
        if not self._resources.covers(found.resource, path):
            raise invalid_token_error(f"The access token was issued for {found.resource} and does not hold here")
        return found.caller


def invalid_token_error(message: str) -> ExpiredKey:
    return ExpiredKey(message, hint="Refresh the token, or authorize the client again for this address.")
