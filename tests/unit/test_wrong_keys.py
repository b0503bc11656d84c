"""Different wrong keys of an address are counted within the window, in bounded memory."""

from __future__ import annotations

import pytest

from knowledge.errors import RateLimited
from knowledge.surfaces.http import wrong_keys
from knowledge.surfaces.http.wrong_keys import WrongKeys


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_address_may_try_again_when_the_window_has_moved() -> None:
    clock = Clock()
    counted = WrongKeys("2/minute", clock)
    counted.add("192.0.2.1", "one")
    counted.check("192.0.2.1")
    clock.now += 30
    counted.add("192.0.2.1", "two")
    with pytest.raises(RateLimited) as refused:
        counted.check("192.0.2.1")
    assert refused.value.details["retry_after"] == 30
    counted.check("192.0.2.2")
    clock.now += 31
    counted.check("192.0.2.1")


def test_the_same_key_counts_once() -> None:
    counted = WrongKeys("2/minute")
    for _ in range(10):
        counted.add("192.0.2.1", "the same")
    counted.check("192.0.2.1")


def test_the_number_of_addresses_and_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_keys, "MAX_ADDRESSES", 5)
    counted = WrongKeys("3/minute")
    for number in range(100):
        for address in range(number % 10 + 1):
            counted.add(f"192.0.2.{address}", f"guess {number}")
    assert len(counted._keys_by_address) <= 5
    assert all(len(keys) <= 3 for keys in counted._keys_by_address.values())
