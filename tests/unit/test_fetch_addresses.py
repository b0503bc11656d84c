"""SSRF protection: which IP addresses are allowed, in every notation."""

from __future__ import annotations

import ipaddress

import pytest

from knowledge.engine.fetch.ssrf import AllowedHosts, check_literal_address, is_public, resolve_allowed
from knowledge.errors import AddressForbidden, FetchFailed, InvalidParameter

PRIVATE = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "168.63.129.16", "192.0.2.1", "203.0.113.9",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a00:1::", "2001:0:7f00:1::",
    "2001:0:5ef5:79fd:0:0:80ff:fffe", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
    "3fff::1", "100::1",
]  # fmt: skip
PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "2606:2800:220:1:248:1893:25c8:1946",
    "::ffff:93.184.216.34",
    "64:ff9b::5db8:d822",
]

SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.1", "127.0.1", "017700000001",
    "[::1]", "::1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0", "0.0.0.0", "[::]", "169.254.169.254", "0xa9fea9fe",
    "2852039166", "[fe80::1%25eth0]", "[64:ff9b::169.254.169.254]",
]  # fmt: skip


@pytest.mark.parametrize("address", PRIVATE)
def test_non_public_addresses_are_recognised(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_recognised(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("host", SPELLINGS)
def test_a_forbidden_address_is_refused_in_every_notation(host: str) -> None:
    with pytest.raises(AddressForbidden):
        check_literal_address(host, AllowedHosts())


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "ip6-localhost", "１２７.0.0.1"])
async def test_a_host_name_is_checked_by_the_address_it_resolves_to(host: str) -> None:
    with pytest.raises((AddressForbidden, FetchFailed)):
        await resolve_allowed(host, 80, AllowedHosts())


async def test_an_allowed_network_may_be_reached_by_any_host_name_that_resolves_to_it() -> None:
    found = await resolve_allowed("localhost", 80, AllowedHosts.parse("127.0.0.0/8"))
    assert [str(address) for address in found] == ["127.0.0.1"]


async def test_an_allowed_host_may_be_reached_at_any_address() -> None:
    assert await resolve_allowed("localhost", 80, AllowedHosts.parse("LocalHost."))


async def test_allowing_one_host_does_not_allow_another() -> None:
    with pytest.raises(AddressForbidden):
        await resolve_allowed("127.0.0.1", 80, AllowedHosts.parse("localhost, 10.0.0.0/8"))


def test_the_ipv4_mapped_form_of_an_allowed_address_is_allowed() -> None:
    check_literal_address("[::ffff:127.0.0.1]", AllowedHosts.parse("127.0.0.1"))


def test_an_invalid_entry_of_the_allow_list_is_named_in_the_error() -> None:
    with pytest.raises(InvalidParameter, match="http://intranet"):
        AllowedHosts.parse("10.0.0.0/8, http://intranet")


async def test_an_unknown_host_name_fails_the_lookup() -> None:
    with pytest.raises(FetchFailed, match=r"DNS lookup for nowhere\.invalid failed"):
        await resolve_allowed("nowhere.invalid", 80, AllowedHosts())
