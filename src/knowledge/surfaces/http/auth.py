"""Who is asking: keys in, a Caller out; and whether an address may be opened to the network at all."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.errors import Forbidden, InvalidKey, MissingKey
from knowledge.model import LOCAL_OWNER, Caller, CallerKind
from knowledge.model.accounts import ACCOUNT_KEY_PREFIX

log = logging.getLogger(__name__)

PROXY_HEADER_PREFIX = b"x-forwarded"
PROXY_HEADERS = frozenset({
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-original-forwarded-for",
    b"x-original-host", b"x-envoy-external-address", b"x-azure-clientip", b"x-appengine-user-ip", b"true-client-ip",
    b"cf-connecting-ip", b"cf-connecting-ipv6", b"cf-ray", b"cdn-loop", b"fastly-client-ip", b"fly-client-ip",
    b"do-connecting-ip",
})  # fmt: skip
"""Headers that proxies, tunnels and content delivery networks add and that programs do not send of their own."""
DIRECT_ONLY_HINT = (
    "Without a key only direct connections from this machine are served; this request came through a proxy or from "
    "another machine. Send the key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
)

AccountLookup: TypeAlias = Callable[[str], Awaitable[Caller | None]]
"""The account that a key belongs to, where there are accounts."""


class Surface(StrEnum):
    """What a path belongs to; each side has a key of its own."""

    REST = "REST"
    MCP = "MCP"
    MANAGER = "manager"
    """The endpoints that contract 001 names for itself, which take the keys of accounts and no others."""
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Authenticator:
    """The operator's keys for each side, and where to ask about those of accounts."""

    rest_keys: tuple[str, ...] = ()
    mcp_keys: tuple[str, ...] = ()
    find_account: AccountLookup | None = None
    closed_surfaces: frozenset[Surface] = frozenset()
    """Sides on which nobody without a key is taken for the local owner."""
    allow_open: bool = False
    """Whether the operator takes everybody who reaches an open side for the local owner, from wherever they come."""

    @classmethod
    def from_settings(cls, settings: Settings, find_account: AccountLookup | None = None) -> Authenticator:
        private = is_local_only(settings) or settings.allow_open
        closed = frozenset[Surface]() if private else frozenset({Surface.REST, Surface.MCP})
        secrets = _secret_as_tuple(settings.api_key), _secret_as_tuple(settings.mcp_api_key)
        return cls(*secrets, find_account, closed, settings.allow_open)

    async def identify(self, surface: Surface, key: str | None, *, direct: bool) -> Caller:
        """Who bears this key; on an open side, whoever connects directly from this machine is the local owner."""
        wanted = {Surface.REST: self.rest_keys, Surface.MCP: self.mcp_keys}.get(surface, ())
        if key is not None and _matches_any(key, wanted):
            return Caller(CallerKind.KEY)
        if surface is Surface.MANAGER or (key is not None and key.startswith(ACCOUNT_KEY_PREFIX)):
            return await self._identify_account(key)
        if wanted or surface in self.closed_surfaces:
            raise missing_key_error() if key is None else wrong_key_error()
        if surface is not Surface.PAGE and not (direct or self.allow_open):
            raise MissingKey("The key is missing", hint=DIRECT_ONLY_HINT) if key is None else wrong_key_error()
        return Caller()

    def identify_operator(self, key: str | None) -> Caller:
        """Who asks where no key is needed: the bearer of the operator's key, or anybody.

        A wrong key is refused here too: otherwise whether a limit applies would tell whether a guess was right.
        """
        if key is None or not self.rest_keys or key.startswith(ACCOUNT_KEY_PREFIX):
            return Caller()
        if not _matches_any(key, self.rest_keys):
            raise wrong_key_error()
        return Caller(CallerKind.KEY)

    async def _identify_account(self, key: str | None) -> Caller:
        """A key of our form is an account's or nobody's: one that is not valid never becomes the local owner."""
        if key is None:
            raise missing_key_error()
        found = await self.find_account(key) if self.find_account and key.startswith(ACCOUNT_KEY_PREFIX) else None
        if found is None:
            raise wrong_key_error()
        return found


def missing_key_error() -> MissingKey:
    return MissingKey("The key is missing")


def wrong_key_error() -> InvalidKey:
    return InvalidKey("The key is wrong")


def choose_account_lookup(engine: Engine) -> AccountLookup:
    """Who judges the keys of accounts: the engine here; one elsewhere does so itself with every call."""
    from knowledge.engine.remote.engine import (
        RemoteEngine,  # an HTTP client and all shapes, which a light server never wants
    )

    async def passed_on(key: str) -> Caller:
        return Caller(CallerKind.ACCOUNT, key=key)

    return passed_on if isinstance(engine, RemoteEngine) else engine.accounts.find_by_key


async def identify_process_caller(engine: Engine, key: SecretStr | None) -> Caller:
    """Whom a process of one's own acts for: the account whose key it was given, or the local owner."""
    if key is None:
        return Caller()
    found = await choose_account_lookup(engine)(key.get_secret_value())
    if found is None:
        raise InvalidKey("KNOWLEDGE_MANAGER_API_KEY is not a valid key", hint="Log in for a new key, or unset it.")
    return found


def _matches_any(key: str, wanted: Sequence[str]) -> bool:
    """Compares in constant time with every key, which prevents timing attacks."""
    matches = [hmac.compare_digest(key.encode(), known.encode()) for known in wanted]
    return True in matches


def _secret_as_tuple(value: SecretStr | None) -> tuple[str, ...]:
    return () if value is None else (value.get_secret_value(),)


def key_of(headers: Headers) -> str | None:
    """The key of a request: a bearer token, or X-API-Key."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or None


def is_direct(scope: Scope) -> bool:
    """Whether a request comes straight from a program on this machine: from loopback, with no sign of a proxy."""
    client = scope.get("client")
    if client is None or not is_loopback(client[0]):
        return False
    return not any(name in PROXY_HEADERS or name.startswith(PROXY_HEADER_PREFIX) for name, _ in scope["headers"])


def caller_of(scope: Scope) -> Caller:
    """Whom the guard has let in; without a guard, the local owner."""
    caller = scope.get("caller")
    return caller if isinstance(caller, Caller) else Caller()


def format_caller_id(caller: Caller) -> str:
    """Who somebody is, in one word; where only an engine elsewhere knows the account, by a digest of the key."""
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
    """Whether only this machine reaches the server: it listens on loopback, and no proxy stands before it."""
    return is_loopback(settings.host) and not settings.trusted_proxies.strip()


def check_binding(
    settings: Settings, surfaces: Sequence[Surface] = (Surface.REST, Surface.MCP), *, accounts: bool = False
) -> None:
    """Refuse to open a side to the network without a key for it, unless the operator says that this is meant."""
    missing = find_missing_keys(settings, surfaces, accounts=accounts)
    if not missing:
        return
    if not settings.allow_open:
        people = ", add an account with 'knowledge user add'" if missing == ["KB_MCP_API_KEY"] else ""
        raise Forbidden(
            f"Listening on {settings.host} would let anybody in: {' and '.join(missing)} not set",
            hint=f"Set {' and '.join(missing)}{people}, listen on 127.0.0.1, or permit it with KNOWLEDGE_ALLOW_OPEN=1.",
            missing=list(missing),
        )
    log.warning(
        "listening on %s without %s: everybody who reaches it may read and write", settings.host, " and ".join(missing)
    )


def find_missing_keys(
    settings: Settings, surfaces: Sequence[Surface] = (Surface.REST, Surface.MCP), *, accounts: bool = False
) -> list[str]:
    """The keys that are missing on an address that others reach; where there are accounts, MCP can do without."""
    if is_loopback(settings.host):
        return []
    missing = []
    if Surface.REST in surfaces and settings.api_key is None:
        missing.append("KB_API_KEY")
    if Surface.MCP in surfaces and settings.mcp_api_key is None and not accounts:
        missing.append("KB_MCP_API_KEY")
    return missing
