"""Rate limits: their keys, sizes, and response headers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pydantic import ValidationError

from knowledge.config import Settings, read_settings
from knowledge.errors import InvalidParameter, RateLimited
from knowledge.model import Caller, CallerKind
from knowledge.surfaces.http.rate_limit_storage import FILENAME
from knowledge.surfaces.http.rate_limits import (
    Allowance,
    LimitTable,
    RateLimits,
    address_key_of,
    allowance_key_of,
    rate_limit_headers,
)
from knowledge.toolsets.base import RateClass

VARIABLES = (
    "QUERY_RATE_LIMIT", "UPLOAD_RATE_LIMIT", "MANAGEMENT_RATE_LIMIT", "AUTH_RATE_LIMIT",
    "MCP_QUERY_RATE_LIMIT", "MCP_LIST_RATE_LIMIT", "MCP_RESOURCE_RATE_LIMIT",
)  # fmt: skip


def limits(data: Path, **given: object) -> RateLimits:
    return RateLimits.from_settings(Settings.model_validate({"data": data, **given}))


def amounts(table: LimitTable) -> dict[str, str]:
    return {rate.value: limit for rate, (_, limit) in table.items()}


@pytest.mark.requirement("001.limits.defaults")
def test_the_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    rates = limits(tmp_path)
    per_minute = {"query": 60, "list": 60, "resource": 60, "upload": 10, "management": 30, "authentication": 10}
    expected = {name: f"{amount}/minute" for name, amount in per_minute.items()}
    assert amounts(rates.mcp) == expected
    assert amounts(rates.rest) == {**expected, "page": "600/minute"}


def test_mcp_limits_default_to_the_query_limit(tmp_path: Path) -> None:
    rates = limits(tmp_path, query_rate_limit="7/minute", mcp_list_rate_limit="9 per hour")
    assert amounts(rates.mcp)["query"] == amounts(rates.mcp)["resource"] == "7/minute"
    assert amounts(rates.mcp)["list"] == "9 per hour"
    assert amounts(rates.rest)["list"] == "7/minute"


@pytest.mark.parametrize("prefix", ["", "KNOWLEDGE_"])
@pytest.mark.parametrize("name", VARIABLES)
def test_every_limit_is_read_with_and_without_our_prefix(
    name: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{prefix}{name}", "5/second")
    assert getattr(Settings(), name.lower()) == "5/second"


@pytest.mark.parametrize("value", ["many", "0/minute", "60", "60/fortnight", "-1/minute", "1/minute;9/hour"])
def test_an_invalid_limit_is_refused_at_start(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTH_RATE_LIMIT", value)
    with pytest.raises(
        InvalidParameter, match=r"AUTH_RATE_LIMIT is invalid.* is not a rate limit; use for example 60/minute"
    ):
        read_settings()
    with pytest.raises(ValidationError):
        Settings()


async def test_the_remaining_calls_go_down_and_then_there_is_a_wait(tmp_path: Path) -> None:
    rates = limits(tmp_path, upload_rate_limit="2/minute")
    first = await rates.acquire(rates.rest, "account:1", RateClass.UPLOAD)
    second = await rates.acquire(rates.mcp, "account:1", RateClass.UPLOAD)
    assert first is not None and second is not None
    assert (first.limit, first.remaining, second.remaining) == (2, 1, 0), "over MCP and REST alike"
    assert first.reset == second.reset, "when the first draw no longer counts"
    with pytest.raises(RateLimited, match=r"^Rate limit exceeded\. Please slow down and try again\.$") as caught:
        await rates.acquire(rates.rest, "account:1", RateClass.UPLOAD)
    headers = rate_limit_headers(caught.value)
    assert headers["x-ratelimit-limit"] == "2" and headers["x-ratelimit-remaining"] == "0"
    assert headers["x-ratelimit-reset"] == str(first.reset) and 1 <= int(headers["retry-after"]) <= 60
    assert await rates.acquire(rates.rest, "account:2", RateClass.UPLOAD) is not None
    assert await rates.acquire(rates.rest, "account:1", RateClass.QUERY) is not None


async def test_off_removes_a_limit(tmp_path: Path) -> None:
    rates = limits(tmp_path, query_rate_limit="off", mcp_list_rate_limit="1/day")
    assert await rates.acquire(rates.mcp, "account:1", RateClass.QUERY) is None
    assert await rates.acquire(rates.mcp, "account:1", RateClass.LIST) is not None


async def test_file_storage_keeps_the_counters_over_a_restart(tmp_path: Path) -> None:
    for expected in (1, 0):
        rates = limits(tmp_path, auth_rate_limit="2/day", rate_limit_storage="file")
        drawn = await rates.acquire(rates.rest, "address:10.0.0.1", RateClass.AUTHENTICATION)
        assert drawn is not None and drawn.remaining == expected
        rates.close()
    rates = limits(tmp_path, auth_rate_limit="2/day", rate_limit_storage="file")
    with pytest.raises(RateLimited):
        await rates.acquire(rates.rest, "address:10.0.0.1", RateClass.AUTHENTICATION)
    rates.close()


async def test_memory_counts_while_the_storage_fails(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rates = limits(tmp_path, auth_rate_limit="1/day", rate_limit_storage="file")
    rates.close()  # like a disk that was removed
    with caplog.at_level(logging.WARNING):
        assert await rates.acquire(rates.rest, "address:10.0.0.1", RateClass.AUTHENTICATION) is not None
        with pytest.raises(RateLimited):
            await rates.acquire(rates.rest, "address:10.0.0.1", RateClass.AUTHENTICATION)
    assert FILENAME in caplog.text


def test_only_accounts_have_a_rate_limit_key() -> None:
    assert allowance_key_of(Caller()) is None
    assert allowance_key_of(Caller(CallerKind.KEY)) is None
    assert allowance_key_of(Caller(CallerKind.ACCOUNT, owner=7)) == "account:7"


@pytest.mark.parametrize(
    ("address", "caller_key"),
    [
        ("203.0.113.9", "address:203.0.113.9"),
        ("::ffff:203.0.113.9", "address:203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "address:2001:db8:1:2::/64"),
        ("a-unix-socket", "address:a-unix-socket"),
    ],
)
def test_callers_without_an_account_are_counted_by_address_or_ipv6_network(address: str, caller_key: str) -> None:
    assert address_key_of({"type": "http", "client": (address, 5000)}) == caller_key


def test_the_operators_key_has_no_rate_limit_key() -> None:
    assert address_key_of({"type": "http", "client": ("10.0.0.1", 1), "caller": Caller(CallerKind.KEY)}) is None


def test_rate_limit_headers_are_integers() -> None:
    assert Allowance(60, 45, 1640000000).headers == {
        "x-ratelimit-limit": "60", "x-ratelimit-remaining": "45", "x-ratelimit-reset": "1640000000"
    }  # fmt: skip
