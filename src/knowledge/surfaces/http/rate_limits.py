"""How much a caller may ask for: an allowance for each caller and class of call, in a window that moves."""

from __future__ import annotations

import ipaddress
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread
from starlette.types import Scope

from knowledge.config import Settings
from knowledge.errors import RateLimited, StorageFailed
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.auth import caller_of, format_caller_id
from knowledge.surfaces.http.rate_limit_storage import (
    FileRateLimitStorage,
    MemoryRateLimitStorage,
    RateLimitStorage,
    open_storage,
)
from knowledge.surfaces.http.wrong_keys import WrongKeys
from knowledge.toolsets.base import RateClass

if TYPE_CHECKING:
    from limits import RateLimitItem

log = logging.getLogger(__name__)

LimitTable: TypeAlias = Mapping[RateClass, tuple[str, str]]
"""The limit of each class, and the name that it counts under; one that is not there has none."""

IPV6_PREFIX_BITS = 64
"""Whoever has one address of such a network has all of them."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left after a draw."""

    limit: int
    remaining: int
    reset: int
    """When the oldest draw no longer counts, in seconds since 1970."""

    @property
    def headers(self) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-reset": str(self.reset),
        }


class RateLimits:
    """Applies the rate limit of each class of call; falls back to memory while the storage fails."""

    def __init__(
        self, mcp: LimitTable, rest: LimitTable, storage: RateLimitStorage, clock: Callable[[], float] = time.time
    ) -> None:
        self.mcp, self.rest = mcp, rest
        self.wrong_keys: WrongKeys | None = None
        """Set where the operator's own keys are checked, which may be short enough to be guessed."""
        self._storage, self._clock = storage, clock
        self._fallback = storage if isinstance(storage, MemoryRateLimitStorage) else MemoryRateLimitStorage(clock)

    @classmethod
    def from_settings(cls, settings: Settings) -> RateLimits:
        query = settings.query_rate_limit
        shared = _make_table(
            (RateClass.UPLOAD, "upload", settings.upload_rate_limit),
            (RateClass.MANAGEMENT, "management", settings.management_rate_limit),
            (RateClass.AUTHENTICATION, "authentication", settings.auth_rate_limit),
        )
        mcp = _make_table(
            (RateClass.QUERY, "mcp-query", settings.mcp_query_rate_limit or query),
            (RateClass.LIST, "mcp-list", settings.mcp_list_rate_limit or query),
            (RateClass.RESOURCE, "mcp-resource", settings.mcp_resource_rate_limit or query),
        )
        rest = _make_table(
            (RateClass.QUERY, "query", query), (RateClass.LIST, "list", query), (RateClass.RESOURCE, "resource", query)
        )
        book = open_storage(settings.rate_limit_storage, settings.data)
        limits = cls({**shared, **mcp}, {**shared, **rest}, book)
        limits.wrong_keys = WrongKeys.from_settings(settings)
        return limits

    @classmethod
    def for_authentication(cls, settings: Settings) -> RateLimits:
        """Only the limit on registering, logging in and wrong keys, counted in memory."""
        table = _make_table((RateClass.AUTHENTICATION, "authentication", settings.auth_rate_limit))
        return cls(table, table, MemoryRateLimitStorage())

    async def acquire(self, table: LimitTable, caller_key: str | None, rate: RateClass) -> Allowance | None:
        """Take one from an allowance; None for whoever has no limit. Raises RateLimited when it is used up."""
        given = table.get(rate)
        if given is None or caller_key is None:
            return None
        item = _parse_limit(*given)
        if self._storage is self._fallback:
            return self._acquire_from(self._storage, item, caller_key)
        try:
            return await anyio.to_thread.run_sync(self._acquire_from, self._storage, item, caller_key)
        except StorageFailed as error:
            log.warning("allowances are counted in memory, since their storage fails: %s", error)
            return self._acquire_from(self._fallback, item, caller_key)

    def _acquire_from(self, book: RateLimitStorage, item: RateLimitItem, who: str) -> Allowance:
        key, window = item.key_for(who), item.get_expiry()
        taken = book.acquire_entry(key, item.amount, window)
        oldest, spent = book.get_moving_window(key, item.amount, window)
        ends = oldest + window
        if not taken:
            raise _rate_limit_error(item.amount, ends, self._clock())
        return Allowance(item.amount, max(0, item.amount - spent), math.ceil(ends))

    def close(self) -> None:
        if isinstance(self._storage, FileRateLimitStorage):
            self._storage.close()


def _make_table(*rows: tuple[RateClass, str, str]) -> dict[RateClass, tuple[str, str]]:
    """Each limit counts under a name of its own, so that two of the same size stay two."""
    return {rate: (name, limit) for rate, name, limit in rows if limit != "off"}


@lru_cache(64)
def _parse_limit(name: str, limit: str) -> RateLimitItem:
    from limits import parse  # takes longer to import than all else here, and only those who have limits need it

    item = parse(limit)
    item.namespace = name
    return item


def _rate_limit_error(limit: int, ends: float, now: float) -> RateLimited:
    wait = max(1, math.ceil(ends - now))
    return RateLimited(
        "Rate limit exceeded. Please slow down and try again.",
        hint=f"Wait {wait} s.",
        retry_after=wait,
        limit=limit,
        reset=math.ceil(ends),
    )


def rate_limit_headers(error: RateLimited) -> dict[str, str]:
    """What the head of a 429 says."""
    details = error.details
    named = {"x-ratelimit-limit": "limit", "x-ratelimit-reset": "reset", "retry-after": "retry_after"}
    known = {header: str(details[name]) for header, name in named.items() if name in details}
    return {**known, "x-ratelimit-remaining": "0"} if known else {}


def allowance_key_of(caller: Caller) -> str | None:
    """Whose allowance a call draws on; the local owner and the operator's key have no limit."""
    return format_caller_id(caller) if caller.kind is CallerKind.ACCOUNT else None


def address_key_of(scope: Scope) -> str | None:
    """The purse of whoever shows no account: their address. The operator's key has no limit."""
    if caller_of(scope).kind is CallerKind.KEY:
        return None
    return f"address:{address_of(scope)}"


def address_of(scope: Scope) -> str:
    """The address that a request is counted by."""
    client = scope.get("client")
    return network_of(client[0]) if client else "unknown"


@lru_cache(1024)
def network_of(host: str) -> str:
    """Whom an address belongs to: itself in IPv4, its network of 64 bits in IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:80]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), IPV6_PREFIX_BITS), strict=False))
