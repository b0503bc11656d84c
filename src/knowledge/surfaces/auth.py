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

    @classmethod
    def of(cls, settings: Settings, account_of: AccountOf | None = None) -> Keys:
        private = is_loopback(settings.host) or settings.allow_open
        closed = frozenset[Side]() if private else frozenset({Side.REST, Side.MCP})
        return cls(_secret(settings.api_key), _secret(settings.mcp_api_key), account_of, closed)

    async def identify(self, side: Side, key: str | None) -> Caller:
        """Who bears this key; an open side without a key takes everybody without one for the local owner."""
        wanted = {Side.REST: self.rest, Side.MCP: self.mcp}.get(side, ())
        if key is not None and _among(key, wanted):
            return Caller(CallerKind.KEY)
        if side is Side.MANAGER or (key is not None and key.startswith(ACCOUNT_KEY)):
            return await self._account(key)
        if wanted or side in self.closed:
            raise missing_key() if key is None else wrong_key()
        return Caller()

    def operator(self, key: str | None) -> Caller:
        """Who asks where no key is needed: whoever bears the operator's all the same, or anybody."""
        return Caller(CallerKind.KEY) if key is not None and _among(key, self.rest) else Caller()

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
    from knowledge.engine.remote import RemoteEngine  # an HTTP client and all shapes, which a light server never wants

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
