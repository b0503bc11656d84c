"""Limits brute-force guessing: counts the different wrong keys from each address."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from knowledge.config import Settings
from knowledge.errors import RateLimited

MAX_ADDRESSES = 10_000
MAX_KEYS_PER_ADDRESS = 1000


class WrongKeys:
    """The wrong keys from each address, in memory; evicts the oldest address beyond MAX_ADDRESSES."""

    def __init__(self, limit: str, clock: Callable[[], float] = time.time) -> None:
        self._limit_text, self._clock = limit, clock
        self._keys_by_address: OrderedDict[str, dict[bytes, float]] = OrderedDict()

    @classmethod
    def from_settings(cls, settings: Settings) -> WrongKeys | None:
        """Use AUTH_RATE_LIMIT as the limit; None if it is off."""
        return None if settings.auth_rate_limit == "off" else cls(settings.auth_rate_limit)

    @cached_property
    def _limit(self) -> tuple[int, int]:
        """Number of keys, and the window in seconds."""
        from limits import parse  # slow import, needed only after a wrong key

        item = parse(self._limit_text)
        return min(item.amount, MAX_KEYS_PER_ADDRESS), item.get_expiry()

    def add(self, address: str, key: str) -> None:
        seen = self._recent_keys(address)
        if len(seen) < self._limit[0]:  # at the limit more keys change nothing
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8]
            seen.setdefault(digest, self._clock())
            self._keys_by_address[address] = seen
        while len(self._keys_by_address) > MAX_ADDRESSES:
            self._keys_by_address.popitem(last=False)

    def check(self, address: str) -> None:
        """Raise RateLimited while an address has used up its guesses."""
        if address not in self._keys_by_address:
            return
        seen = self._recent_keys(address)
        limit, window = self._limit
        if len(seen) < limit:
            return
        ends = min(seen.values()) + window
        wait = max(1, math.ceil(ends - self._clock()))
        raise RateLimited(
            f"Too many wrong API keys: this address has tried {limit} different ones, "
            "so the operator's key is not accepted from it",
            hint=f"Wait {wait} s. Keys of accounts, the command line and stdio are not affected.",
            retry_after=wait,
            limit=limit,
            reset=math.ceil(ends),
        )

    def _recent_keys(self, address: str) -> dict[bytes, float]:
        since = self._clock() - self._limit[1]
        recent = {digest: at for digest, at in self._keys_by_address.get(address, {}).items() if at > since}
        if not recent:
            self._keys_by_address.pop(address, None)
        return recent
