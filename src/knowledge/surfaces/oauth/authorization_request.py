"""The authorization request of a client: parsed and checked before anybody logs in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from knowledge.engine.api import Engine
from knowledge.engine.oauth.redirect_uris import is_loopback_uri, matches_registered
from knowledge.errors import Invalid, KnowledgeError
from knowledge.model.oauth import OAuthClient, OAuthScope, expand_scopes
from knowledge.surfaces.oauth.resources import ProtectedResources

CODE_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""The SHA-256 of a code verifier in base64url without padding (RFC 7636 §4.2)."""
DEFAULT_SCOPES = (OAuthScope.READ, OAuthScope.WRITE)
MAX_STATE_CHARS = 2000
PARAMETERS = (
    "response_type", "client_id", "redirect_uri", "scope", "state", "code_challenge", "code_challenge_method",
    "resource",
)  # fmt: skip
"""What is kept of a request while a person logs in; other parameters are ignored (RFC 6749 §3.1)."""


class RequestRefused(Exception):
    """An authorization request that is not valid; with `redirect_uri` the client may be told."""

    def __init__(self, code: str, message: str, redirect_uri: str = "", state: str | None = None) -> None:
        super().__init__(message)
        self.code, self.redirect_uri, self.state = code, redirect_uri, state


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    client: OAuthClient
    redirect_uri: str
    state: str | None
    scopes: tuple[str, ...]
    code_challenge: str
    resource: str
    query: str
    """The request itself, which the forms carry from page to page; it is checked anew each time."""

    @property
    def redirect_host(self) -> str:
        """The host that gets the answer, or the scheme of a private one."""
        parts = urlsplit(self.redirect_uri)
        return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"

    @property
    def client_host(self) -> str | None:
        """The host that vouches for the client; None if it registered itself."""
        return urlsplit(self.client.client_id).netloc if self.client.is_document else None

    @property
    def is_loopback(self) -> bool:
        return is_loopback_uri(self.redirect_uri)


async def parse_request(
    fields: Mapping[str, str], engine: Engine, resources: ProtectedResources
) -> AuthorizationRequest:
    """Check a request; raises RequestRefused, with the redirect URI only if it belongs to the client."""
    client = await _find_client(fields.get("client_id", ""), engine)
    redirect_uri = fields.get("redirect_uri") or (client.redirect_uris[0] if len(client.redirect_uris) == 1 else "")
    if not matches_registered(redirect_uri, client.redirect_uris):
        raise RequestRefused("invalid_request", "The redirect_uri is not one that the app has registered.")
    state = fields.get("state")

    def refuse(code: str, message: str) -> RequestRefused:
        return RequestRefused(code, message, redirect_uri, state)

    if len(state or "") > MAX_STATE_CHARS:
        raise RequestRefused("invalid_request", f"The state is longer than {MAX_STATE_CHARS} characters.")
    if fields.get("response_type") != "code":
        raise refuse("unsupported_response_type", "The response_type must be 'code'.")
    if "request" in fields or "request_uri" in fields:
        raise refuse("request_not_supported", "Request objects are not supported.")
    if fields.get("code_challenge_method") != "S256" or not CODE_CHALLENGE.fullmatch(fields.get("code_challenge", "")):
        raise refuse("invalid_request", "PKCE is needed: a code_challenge with the code_challenge_method 'S256'.")
    resource = resources.parse(fields.get("resource"))
    if resource is None:
        raise refuse("invalid_target", "The resource is not one of this server.")
    return AuthorizationRequest(
        client=client,
        redirect_uri=redirect_uri,
        state=state,
        scopes=expand_scopes(fields.get("scope", "").split()) or expand_scopes(DEFAULT_SCOPES),
        code_challenge=fields["code_challenge"],
        resource=resource,
        query=urlencode([(name, fields[name]) for name in PARAMETERS if name in fields]),
    )


async def _find_client(client_id: str, engine: Engine) -> OAuthClient:
    if not client_id:
        raise RequestRefused("invalid_request", "The client_id is missing.")
    try:
        client = await engine.oauth.find_client(client_id)
    except (KnowledgeError, Invalid) as error:
        raise RequestRefused("invalid_client", f"The description of the app could not be read: {error}.") from error
    if client is None:
        raise RequestRefused(
            "invalid_client", "This server does not know the app. Remove the connection in the app and add it again."
        )
    return client


def make_answer_url(redirect_uri: str, issuer: str, state: str | None, **answer: str) -> str:
    """Return where the browser goes with the answer, which names the issuer (RFC 9207)."""
    named = {**answer, "iss": issuer, **({} if state is None else {"state": state})}
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{urlencode(named)}"
