"""Who is asking: keys in, a Caller out; and whether an address may be opened to the network at all."""

from __future__ import annotations

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
from knowledge.errors import Forbidden, Unauthenticated
from knowledge.model import Caller, CallerKind

log = logging.getLogger(__name__)

AccountOf: TypeAlias = Callable[[str], Awaitable[Caller | None]]
"""The account that a key belongs to, where there are accounts."""


class Side(StrEnum):
    """What a path belongs to; each side has a key of its own."""

    REST = "REST"
    MCP = "MCP"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Keys:
    """The operator's keys for each side, and where to ask about the others."""

    rest: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    account_of: AccountOf | None = None

    @classmethod
    def of(cls, settings: Settings, account_of: AccountOf | None = None) -> Keys:
        return cls(_secret(settings.api_key), _secret(settings.mcp_api_key), account_of)

    async def identify(self, side: Side, key: str | None) -> Caller:
        """Who bears this key; a side without a key takes everybody for the local owner."""
        wanted = {Side.REST: self.rest, Side.MCP: self.mcp, Side.PAGE: ()}[side]
        if key is not None and _among(key, wanted):
            return Caller(CallerKind.KEY)
        account = await self.account_of(key) if key is not None and self.account_of else None
        if account is not None:
            return account
        if wanted:
            raise Unauthenticated("The key is missing" if key is None else "The key is wrong")
        return Caller()


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
    if is_loopback(settings.host):
        return
    missing = []
    if Side.REST in sides and settings.api_key is None:
        missing.append("KB_API_KEY")
    if Side.MCP in sides and settings.mcp_api_key is None and not accounts:
        missing.append("KB_MCP_API_KEY")
    if not missing:
        return
    if not settings.allow_open:
        raise Forbidden(
            f"Listening on {settings.host} would let anybody in: {' and '.join(missing)} not set",
            hint=f"Set {' and '.join(missing)}, listen on 127.0.0.1, or permit it with KNOWLEDGE_ALLOW_OPEN=1.",
            missing=list(missing),
        )
    log.warning(
        "listening on %s without %s: everybody who reaches it may read and write", settings.host, " and ".join(missing)
    )
