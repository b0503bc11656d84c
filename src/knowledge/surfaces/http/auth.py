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
from knowledge.model.accounts import ACCOUNT_KEY

log = logging.getLogger(__name__)

FORWARDING_PREFIX = b"x-forwarded"
FORWARDING = frozenset({
    b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-original-forwarded-for",
    b"x-original-host", b"x-envoy-external-address", b"x-azure-clientip", b"x-appengine-user-ip", b"true-client-ip",
    b"cf-connecting-ip", b"cf-connecting-ipv6", b"cf-ray", b"cdn-loop", b"fastly-client-ip", b"fly-client-ip",
    b"do-connecting-ip",
})  # fmt: skip
"""Headers that proxies, tunnels and content delivery networks add and that programs do not send of their own."""
ONLY_DIRECT = (
    "Without a key only direct connections from this machine are served; this request came through a proxy or from "
    "another machine. Send the key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."
)

AccountOf: TypeAlias = Callable[[str], Awaitable[Caller | None]]
"""The account that a key belongs to, where there are accounts."""


class Side(StrEnum):
    """What a path belongs to; each side has a key of its own."""

    REST = "REST"
    MCP = "MCP"
    MANAGER = "manager"
    """The endpoints that contract 001 names for itself, which take the keys of accounts and no others."""
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Keys:
    """The operator's keys for each side, and where to ask about those of accounts."""

    rest: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    account_of: AccountOf | None = None
    closed: frozenset[Side] = frozenset()
    """Sides on which nobody without a key is taken for the local owner."""
    allow_open: bool = False
    """Whether the operator takes everybody who reaches an open side for the local owner, from wherever they come."""

    @classmethod
    def of(cls, settings: Settings, account_of: AccountOf | None = None) -> Keys:
        private = is_private(settings) or settings.allow_open
        closed = frozenset[Side]() if private else frozenset({Side.REST, Side.MCP})
        secrets = _secret(settings.api_key), _secret(settings.mcp_api_key)
        return cls(*secrets, account_of, closed, settings.allow_open)

    async def identify(self, side: Side, key: str | None, *, direct: bool) -> Caller:
        """Who bears this key; on an open side, whoever connects directly from this machine is the local owner."""
        wanted = {Side.REST: self.rest, Side.MCP: self.mcp}.get(side, ())
        if key is not None and _among(key, wanted):
            return Caller(CallerKind.KEY)
        if side is Side.MANAGER or (key is not None and key.startswith(ACCOUNT_KEY)):
            return await self._account(key)
        if wanted or side in self.closed:
            raise missing_key() if key is None else wrong_key()
        if side is not Side.PAGE and not (direct or self.allow_open):
            raise MissingKey("The key is missing", hint=ONLY_DIRECT) if key is None else wrong_key()
        return Caller()

    def operator(self, key: str | None) -> Caller:
        """Who asks where no key is needed: the bearer of the operator's key, or anybody.

        A wrong key is refused here too: otherwise whether a limit applies would tell whether a guess was right.
        """
        if key is None or not self.rest or key.startswith(ACCOUNT_KEY):
            return Caller()
        if not _among(key, self.rest):
            raise wrong_key()
        return Caller(CallerKind.KEY)

    async def _account(self, key: str | None) -> Caller:
        """A key of our form is an account's or nobody's: one that is not valid never becomes the local owner."""
        if key is None:
            raise missing_key()
        found = await self.account_of(key) if self.account_of and key.startswith(ACCOUNT_KEY) else None
        if found is None:
            raise wrong_key()
        return found


def missing_key() -> MissingKey:
    return MissingKey("The key is missing")


def wrong_key() -> InvalidKey:
    return InvalidKey("The key is wrong")


def judge_of(engine: Engine) -> AccountOf:
    """Who judges the keys of accounts: the engine here; one elsewhere does so itself with every call."""
    from knowledge.engine.remote.engine import (
        RemoteEngine,  # an HTTP client and all shapes, which a light server never wants
    )

    async def passed_on(key: str) -> Caller:
        return Caller(CallerKind.ACCOUNT, key=key)

    return passed_on if isinstance(engine, RemoteEngine) else engine.account_of


async def account_for(engine: Engine, key: SecretStr | None) -> Caller:
    """Whom a process of one's own acts for: the account whose key it was given, or the local owner."""
    if key is None:
        return Caller()
    found = await judge_of(engine)(key.get_secret_value())
    if found is None:
        raise InvalidKey("KNOWLEDGE_MANAGER_API_KEY is not a valid key", hint="Log in for a new key, or unset it.")
    return found


def _among(key: str, wanted: Sequence[str]) -> bool:
    """Compared with every key to the end, so that the time it takes says nothing."""
    matches = [hmac.compare_digest(key.encode(), known.encode()) for known in wanted]
    return True in matches


def _secret(value: SecretStr | None) -> tuple[str, ...]:
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
    return not any(name in FORWARDING or name.startswith(FORWARDING_PREFIX) for name, _ in scope["headers"])


def caller_of(scope: Scope) -> Caller:
    """Whom the guard has let in; without a guard, the local owner."""
    caller = scope.get("caller")
    return caller if isinstance(caller, Caller) else Caller()


def identity(caller: Caller) -> str:
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


def is_private(settings: Settings) -> bool:
    """Whether only this machine reaches the server: it listens on loopback, and no proxy stands before it."""
    return is_loopback(settings.host) and not settings.trusted_proxies.strip()


def check_binding(settings: Settings, sides: Sequence[Side] = (Side.REST, Side.MCP), *, accounts: bool = False) -> None:
    """Refuse to open a side to the network without a key for it, unless the operator says that this is meant."""
    missing = unlocked(settings, sides, accounts=accounts)
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


def unlocked(settings: Settings, sides: Sequence[Side] = (Side.REST, Side.MCP), *, accounts: bool = False) -> list[str]:
    """The keys that are missing on an address that others reach; where there are accounts, MCP can do without."""
    if is_loopback(settings.host):
        return []
    missing = []
    if Side.REST in sides and settings.api_key is None:
        missing.append("KB_API_KEY")
    if Side.MCP in sides and settings.mcp_api_key is None and not accounts:
        missing.append("KB_MCP_API_KEY")
    return missing
