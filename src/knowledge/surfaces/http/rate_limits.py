"""Rate limits per caller and class of call, with a sliding window."""

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
    ClosableStorage,
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
"""Name of the counter and limit of each class; a missing class has no limit."""

SESSION_CLASSES = (RateClass.TYPING, RateClass.LIST, RateClass.RESOURCE, RateClass.UPLOAD)
"""Classes that have limits of their own in browser sessions."""
IPV6_PREFIX_BITS = 64
"""IPv6 clients are counted by their /64 network, of which one client usually has all addresses."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The state of a rate limit after a call."""

    limit: int
    remaining: int
    reset: int
    """Unix time at which the oldest call leaves the window."""

    @property
    def headers(self) -> dict[str, str]:
        return {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(self.remaining),
            "x-ratelimit-reset": str(self.reset),
        }


@dataclass(frozen=True, slots=True)
class RateUsage:
    """A rate limit and how much of it is used."""

    name: str
    limit: int
    seconds: int
    used: int
    reset: int
    """Unix time at which the oldest call leaves the window."""


class RateLimits:
    """Applies the rate limit of each class of call; falls back to memory while the storage fails."""

    def __init__(
        self, mcp: LimitTable, rest: LimitTable, storage: RateLimitStorage, clock: Callable[[], float] = time.time
    ) -> None:
        self.mcp, self.rest = mcp, rest
        self.session: LimitTable = rest
        """REST in a browser session."""
        self.wrong_keys: WrongKeys | None = None
        """Set if the operator's keys are checked, because an operator may choose a key that can be guessed."""
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
            (RateClass.QUERY, "query", query), (RateClass.LIST, "list", query),
            (RateClass.RESOURCE, "resource", query), (RateClass.PAGE, "page", settings.page_rate_limit),
        )  # fmt: skip
        typing = settings.typing_rate_limit
        session = _make_table(
            (RateClass.TYPING, "session-typing", typing), (RateClass.LIST, "session-list", typing),
            (RateClass.RESOURCE, "session-resource", typing),
            (RateClass.UPLOAD, "session-upload", settings.session_upload_rate_limit),
        )  # fmt: skip
        url = settings.database_url.get_secret_value() if settings.database_url else None
        storage = open_storage(settings.counter_storage, settings.data, url)
        limits = cls({**shared, **mcp}, {**shared, **rest}, storage)
        kept = {rate: entry for rate, entry in limits.rest.items() if rate not in SESSION_CLASSES}
        limits.session = {**kept, **session}
        limits.wrong_keys = WrongKeys.from_settings(settings)
        return limits

    @classmethod
    def for_authentication(cls, settings: Settings) -> RateLimits:
        """Limit only registrations, logins and wrong keys, with counters in memory."""
        table = _make_table((RateClass.AUTHENTICATION, "authentication", settings.auth_rate_limit))
        return cls(table, table, MemoryRateLimitStorage())

    def table_of(self, caller: Caller) -> LimitTable:
        """Return the limits of REST for a caller: a browser session has its own for some classes."""
        return self.rest if caller.session is None else self.session

    def count_per_minute(self, table: LimitTable, rate: RateClass) -> int | None:
        """Return a limit as calls per minute, rounded down; None if there is none."""
        entry = table.get(rate)
        if entry is None:
            return None
        item = _parse_limit(*entry)
        return item.amount * 60 // item.get_expiry()

    async def list_usage(self, caller: Caller) -> list[RateUsage]:
        """Return how much of each limit a caller has used; empty for callers without limits."""
        key, table = allowance_key_of(caller), self.table_of(caller)
        if key is None:
            return []
        classes = [rate for rate in table if rate is not RateClass.AUTHENTICATION]
        items = [(rate, _parse_limit(*table[rate])) for rate in classes]
        try:
            return await anyio.to_thread.run_sync(lambda: [self._read_usage(rate, item, key) for rate, item in items])
        except StorageFailed as error:
            log.warning("the rate limit storage failed, so the usage is not known: %s", error)
            return []

    def _read_usage(self, rate: RateClass, item: RateLimitItem, caller_key: str) -> RateUsage:
        window = item.get_expiry()
        oldest, spent = self._storage.get_moving_window(item.key_for(caller_key), item.amount, window)
        return RateUsage(rate.value, item.amount, window, spent, math.ceil(oldest + window))

    async def acquire(self, table: LimitTable, caller_key: str | None, rate: RateClass) -> Allowance | None:
        """Count one call; return None if it has no limit, and raise RateLimited if the limit is reached."""
        entry = table.get(rate)
        if entry is None or caller_key is None:
            return None
        item = _parse_limit(*entry)
        if self._storage is self._fallback:
            return self._acquire_from(self._storage, item, caller_key)
        try:
            return await anyio.to_thread.run_sync(self._acquire_from, self._storage, item, caller_key)
        except StorageFailed as error:
            log.warning("the rate limit storage failed, counting in memory: %s", error)
            return self._acquire_from(self._fallback, item, caller_key)

    def _acquire_from(self, storage: RateLimitStorage, item: RateLimitItem, caller_key: str) -> Allowance:
        key, window = item.key_for(caller_key), item.get_expiry()
        taken = storage.acquire_entry(key, item.amount, window)
        oldest, spent = storage.get_moving_window(key, item.amount, window)
        ends = oldest + window
        if not taken:
            raise _rate_limit_error(item.amount, ends, self._clock())
        return Allowance(item.amount, max(0, item.amount - spent), math.ceil(ends))

    def close(self) -> None:
        if isinstance(self._storage, ClosableStorage):
            self._storage.close()


def _make_table(*rows: tuple[RateClass, str, str]) -> dict[RateClass, tuple[str, str]]:
    """Build a table of limits; the names keep equal limits of different classes apart."""
    return {rate: (name, limit) for rate, name, limit in rows if limit != "off"}


@lru_cache(64)
def _parse_limit(name: str, limit: str) -> RateLimitItem:
    from limits import parse  # slow import, needed only if a caller has a limit

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


def rate_of_search(caller: Caller, *, typing: bool) -> RateClass:
    """Return the class of a search: only browser sessions have an allowance for searches while typing."""
    return RateClass.TYPING if typing and caller.session is not None else RateClass.QUERY


def rate_limit_headers(error: RateLimited) -> dict[str, str]:
    """Return the rate limit headers of a 429 response."""
    details = error.details
    named = {"x-ratelimit-limit": "limit", "x-ratelimit-reset": "reset", "retry-after": "retry_after"}
    known = {header: str(details[name]) for header, name in named.items() if name in details}
    return {**known, "x-ratelimit-remaining": "0"} if known else {}


def allowance_key_of(caller: Caller) -> str | None:
    """Return the rate limit key of an account; None for the local owner and the operator's key, which have no limit."""
    return format_caller_id(caller) if caller.kind is CallerKind.ACCOUNT else None


def address_key_of(scope: Scope) -> str | None:
    """Return the rate limit key of the client's address; None for the operator's key, which has no limit."""
    if caller_of(scope).kind is CallerKind.KEY:
        return None
    return f"address:{address_of(scope)}"


def address_of(scope: Scope) -> str:
    """Return the client's address, or its network for IPv6."""
    client = scope.get("client")
    return network_of(client[0]) if client else "unknown"


@lru_cache(1024)
def network_of(host: str) -> str:
    """Return the address itself for IPv4 and its /64 network for IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:80]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), IPV6_PREFIX_BITS), strict=False))
