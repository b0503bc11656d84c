"""Authentication: maps API keys to callers, and refuses to listen on a public address without keys."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Protocol, TypeAlias

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey, Forbidden, InvalidKey, MissingKey, SessionEnded
from knowledge.model import LOCAL_OWNER, Caller, CallerKind
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX
from knowledge.model.oauth import ActiveToken
from knowledge.model.sessions import ActiveSession, prove_operator_key

log = logging.getLogger(__name__)

PROXY_HEADER_PREFIX = b"x-forwarded"
PROXY_HEADERS = frozenset({
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-original-forwarded-for",
    b"x-original-host", b"x-envoy-external-address", b"x-azure-clientip", b"x-appengine-user-ip", b"true-client-ip",
    b"cf-connecting-ip", b"cf-connecting-ipv6", b"cf-ray", b"cdn-loop", b"fastly-client-ip", b"fly-client-ip",
    b"do-connecting-ip",
})  # fmt: skip
"""Headers that proxies, tunnels and content delivery networks add and other clients do not send."""
DIRECT_ONLY_HINT = (
    "Without a key only direct connections from this machine are served; this request came through a proxy or from "
    "another machine. Send the key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
)

AccountLookup: TypeAlias = Callable[[str], Awaitable[Caller | None]]
"""Returns the account of a key, or None."""
ForwardedLookup: TypeAlias = Callable[[str], Awaitable[ActiveToken | None]]
"""Returns the caller of an access token that a process of the operator has verified and forwards."""
SessionLookup: TypeAlias = Callable[[str, bool], Awaitable[ActiveSession | None]]
"""Returns the browser session of a token, or None; the second argument says whether this is a use of it."""
EVENTS_PATH = "/api/v1/events"
"""Requests of streams are no use of a session: browsers repeat them when nobody is there."""


class AccessTokens(Protocol):
    """Identifies callers by access tokens of OAuth."""

    def recognizes(self, key: str) -> bool:
        """Whether a bearer token has the form of an access token."""

    async def identify(self, token: str, path: str) -> Caller:
        """Return the caller of a token that holds for this path; raises ExpiredKey."""


class Surface(StrEnum):
    """The group of paths that share an operator's key and their host and origin checks."""

    REST = "REST"
    MCP = "MCP"
    MANAGER = "manager"
    """The endpoints of contract 001, which accept only the keys of accounts."""
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Identifies callers by the operator's keys of each surface and by the keys of accounts."""

    rest_keys: tuple[str, ...] = ()
    mcp_keys: tuple[str, ...] = ()
    find_account: AccountLookup | None = None
    closed_surfaces: frozenset[Surface] = frozenset()
    """Surfaces that need a key also from direct local connections."""
    allow_open: bool = False
    """Whether callers without a key are the local owner also from other machines."""
    find_session: SessionLookup | None = None
    tokens: AccessTokens | None = None
    """Set if OAuth is on."""
    find_forwarded: ForwardedLookup | None = None

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        find_account: AccountLookup | None = None,
        find_session: SessionLookup | None = None,
        tokens: AccessTokens | None = None,
        find_forwarded: ForwardedLookup | None = None,
    ) -> Authenticator:
        private = is_local_only(settings) or settings.allow_open
        closed = frozenset[Surface]() if private else frozenset({Surface.REST, Surface.MCP})
        secrets = _secret_as_tuple(settings.api_key), _secret_as_tuple(settings.mcp_api_key)
        return cls(*secrets, find_account, closed, settings.allow_open, find_session, tokens, find_forwarded)

    async def identify(self, surface: Surface, key: str | None, *, direct: bool, path: str = "") -> Caller:
        """Return the caller of a key; on an open surface a direct local connection without a key is the local owner."""
        wanted = self._operator_keys(surface)
        if key is not None and _matches_any(key, wanted):
            return Caller(CallerKind.KEY)
        if key is not None and self.is_token(key) and self.tokens is not None:
            return await self.tokens.identify(key, path)
        if surface is Surface.MANAGER or (key is not None and key.startswith(ACCOUNT_KEY_PREFIX)):
            return await self._identify_account(key)
        if self.is_open(surface, direct=direct):
            return Caller()
        if key is not None:
            raise wrong_key_error()
        is_closed = wanted or surface in self.closed_surfaces
        raise missing_key_error() if is_closed else MissingKey("The API key is missing", hint=DIRECT_ONLY_HINT)

    def _operator_keys(self, surface: Surface) -> tuple[str, ...]:
        return {Surface.REST: self.rest_keys, Surface.MCP: self.mcp_keys}.get(surface, ())

    def is_open(self, surface: Surface, *, direct: bool) -> bool:
        """Whether a caller without a key is the local owner."""
        closed = self._operator_keys(surface) or surface in self.closed_surfaces or surface is Surface.MANAGER
        return not closed and (surface is Surface.PAGE or direct or self.allow_open)

    def is_token(self, key: str) -> bool:
        """Whether a key has the form of an access token of OAuth."""
        return self.tokens is not None and self.tokens.recognizes(key)

    async def find_token_caller(self, token: str) -> Caller:
        """Return the caller of a forwarded access token."""
        found = await self.find_forwarded(token) if self.find_forwarded else None
        if found is None:
            raise ExpiredKey("The access token has expired, was revoked or is not valid")
        return found.caller

    def is_operator_key(self, key: str) -> bool:
        """Whether a key is the operator's key for REST."""
        return _matches_any(key, self.rest_keys)

    async def identify_session(self, token: str, path: str) -> ActiveSession:
        """Return the session of a cookie; the operator's sessions end when the operator's key is changed."""
        found = await self.find_session(token, path != EVENTS_PATH) if self.find_session else None
        if found is None:
            raise session_ended_error()
        if found.caller.kind is CallerKind.KEY:
            proof = found.operator_proof or b""
            if not any(hmac.compare_digest(proof, prove_operator_key(token, key)) for key in self.rest_keys):
                raise session_ended_error()
        return found

    def identify_operator(self, key: str | None) -> Caller:
        """Return the caller of a path that needs no key: the operator's key, or an anonymous caller.

        A wrong key is refused here too, because a missing rate limit would show that a guess was right.
        """
        if key is None or not self.rest_keys or key.startswith(ACCOUNT_KEY_PREFIX):
            return Caller()
        if not _matches_any(key, self.rest_keys):
            raise wrong_key_error()
        return Caller(CallerKind.KEY)

    async def _identify_account(self, key: str | None) -> Caller:
        """Return the account of a key; an invalid account key is refused and never becomes the local owner."""
        if key is None:
            raise missing_key_error()
        found = await self.find_account(key) if self.find_account and key.startswith(ACCOUNT_KEY_PREFIX) else None
        if found is None:
            raise wrong_key_error()
        return found


def session_ended_error() -> SessionEnded:
    return SessionEnded("The session has ended")


def missing_key_error() -> MissingKey:
    return MissingKey("The API key is missing")


def wrong_key_error() -> InvalidKey:
    return InvalidKey("The API key is not valid")


def choose_account_lookup(engine: Engine) -> AccountLookup:
    """Return the lookup of account keys: the local engine's, or for a remote engine one that passes the key on."""
    from knowledge.engine.remote.engine import RemoteEngine  # slow import that a local server does not need

    async def pass_key_on(key: str) -> Caller:
        return Caller(CallerKind.ACCOUNT, key=key)

    return pass_key_on if isinstance(engine, RemoteEngine) else engine.accounts.find_by_key


async def identify_process_caller(engine: Engine, key: SecretStr | None) -> Caller:
    """Return the caller of a stdio server: the account of KNOWLEDGE_MANAGER_API_KEY, or the local owner."""
    if key is None:
        return Caller()
    found = await choose_account_lookup(engine)(key.get_secret_value())
    if found is None:
        raise InvalidKey(
            "KNOWLEDGE_MANAGER_API_KEY is not a valid key", hint="Log in again to get a new key, or unset it."
        )
    return found


def _matches_any(key: str, wanted: Sequence[str]) -> bool:
    """Compare in constant time with every key, which prevents timing attacks."""
    matches = [hmac.compare_digest(key.encode(), known.encode()) for known in wanted]
    return True in matches


def _secret_as_tuple(value: SecretStr | None) -> tuple[str, ...]:
    return () if value is None else (value.get_secret_value(),)


def key_of(headers: Headers) -> str | None:
    """Return the key of a request: the bearer token, or X-API-Key."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or None


def is_direct(scope: Scope) -> bool:
    """Whether a request comes from loopback and has no header of a proxy."""
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    return not any(name in PROXY_HEADERS or name.startswith(PROXY_HEADER_PREFIX) for name, _ in scope["headers"])


def caller_of(scope: Scope) -> Caller:
    """Return the caller that the guard authenticated; the local owner if there is no guard."""
    caller = scope.get("caller")
    return caller if isinstance(caller, Caller) else Caller()


def format_caller_id(caller: Caller) -> str:
    """Return an id for rate limits and sessions; a digest of the key if only the remote engine knows the account."""
    if caller.key is not None and caller.owner == LOCAL_OWNER:
        return f"key:{hashlib.sha256(caller.key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
    return f"{caller.kind}:{caller.owner}"


@lru_cache(256)
def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local_only(settings: Settings) -> bool:
    """Whether the server listens on loopback, has no trusted proxy in front of it, and serves no remote clients."""
    return is_loopback(settings.host) and not settings.trusted_proxies.strip() and not settings.oauth


def check_binding(
    settings: Settings, surfaces: Sequence[Surface] = (Surface.REST, Surface.MCP), *, accounts: bool = False
) -> None:
    """Refuse to listen on a public address without keys, unless KNOWLEDGE_ALLOW_OPEN is set."""
    missing = find_missing_keys(settings, surfaces, accounts=accounts)
    if not missing:
        return
    if not settings.allow_open:
        account_hint = ", add an account with 'knowledge user add'" if missing == ["KB_MCP_API_KEY"] else ""
        raise Forbidden(
            f"Refusing to listen on {settings.host} without authentication: {' and '.join(missing)} not set",
            hint=f"Set {' and '.join(missing)}{account_hint}, listen on 127.0.0.1, "
            "or allow it with KNOWLEDGE_ALLOW_OPEN=1.",
            missing=list(missing),
        )
    log.warning(
        "listening on %s without %s: anyone who reaches this address can read and write",
        settings.host,
        " and ".join(missing),
    )


def find_missing_keys(
    settings: Settings, surfaces: Sequence[Surface] = (Surface.REST, Surface.MCP), *, accounts: bool = False
) -> list[str]:
    """Return the keys that a public address needs and that are not set; MCP needs none if there are accounts."""
    if is_loopback(settings.host):
        return []
    missing = []
    if Surface.REST in surfaces and settings.api_key is None:
        missing.append("KB_API_KEY")
    if Surface.MCP in surfaces and settings.mcp_api_key is None and not accounts:
        missing.append("KB_MCP_API_KEY")
    return missing
