"""SSRF protection: a crawl connects only to public IP addresses and to hosts and networks in KNOWLEDGE_CRAWL_ALLOW."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import TypeAlias

from knowledge.errors import AddressForbidden, DeadlineExceeded, FetchFailed, InvalidParameter

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

RESOLVE_SECONDS = 10.0

# Spelled out, because `ipaddress.is_global` differs between Python versions.
NON_PUBLIC_IPV4_NETWORKS = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # the Azure platform service, on an otherwise public address
    )
)  # fmt: skip
GLOBAL_IPV6_NETWORK = ipaddress.IPv6Network("2000::/3")
# Inside 2000::/3: protocol assignments with Teredo, documentation, and 6to4 tunnels to arbitrary IPv4 addresses.
RESERVED_IPV6_NETWORKS = tuple(
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

IPV4_EMBEDDING_NETWORKS = tuple(
    ipaddress.IPv6Network(network)
    for network in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)
"""IPv6 networks whose last four bytes are the IPv4 address that the packets are sent to."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Non-public hosts and networks that a crawl may connect to."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[IpNetwork, ...] = ()

    @classmethod
    def parse(cls, setting: str) -> AllowedHosts:
        """Parse a comma-separated list of host names, IP addresses and networks."""
        hosts, networks = set(), []
        for part in filter(None, (part.strip().strip("[]") for part in setting.split(","))):
            try:
                networks.append(ipaddress.ip_network(part, strict=False))
            except ValueError:
                hosts.add(_parse_host_name(part))
        return cls(frozenset(hosts), tuple(networks))

    def permits(self, host: str, address: IpAddress) -> bool:
        if host.rstrip(".").lower() in self.hosts:
            return True
        targets = [address, *embedded_ipv4(address)]
        return any(target in network for target in targets for network in self.networks) or is_public(address)


def _parse_host_name(part: str) -> str:
    if "/" in part or ":" in part or " " in part:
        raise InvalidParameter(
            f"KNOWLEDGE_CRAWL_ALLOW: '{part[:80]}' is neither a host nor a network",
            hint="List host names, addresses or networks such as 10.0.0.0/8, separated by commas.",
            parameter="crawl_allow",
        )
    return part.rstrip(".").lower()


def is_public(address: IpAddress) -> bool:
    """Return whether an IP address, including an IPv4 address embedded in it, is public."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in NON_PUBLIC_IPV4_NETWORKS)
    inner = embedded_ipv4(address)
    if inner:
        return all(map(is_public, inner))
    return address in GLOBAL_IPV6_NETWORK and not any(address in network for network in RESERVED_IPV6_NETWORKS)


def embedded_ipv4(address: IpAddress) -> list[IpAddress]:
    """Return the IPv4 address embedded in an IPv6 address, if there is one."""
    if isinstance(address, IPv6Address) and any(address in network for network in IPV4_EMBEDDING_NETWORKS):
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    return []


async def resolve_allowed(host: str, port: int, allowed: AllowedHosts) -> list[IpAddress]:
    """Resolve a host to its allowed IP addresses; the caller must connect to one of these, without another lookup."""
    found = await _look_up_host(host, port)
    permitted = [address for address in found if allowed.permits(host, address)]
    if not permitted:
        raise AddressForbidden(
            f"{host} resolves to {found[0]}, which is not a public address", host=host, address=str(found[0])
        )
    return permitted


def check_literal_address(host: str, allowed: AllowedHosts) -> None:
    """Raise AddressForbidden if the host is a non-public IP address in any notation; does no DNS lookup."""
    address = parse_literal_address(host)
    if address is not None and not allowed.permits(host, address):
        raise AddressForbidden(f"{host} is not a public address", host=host, address=str(address))


def parse_literal_address(host: str) -> IpAddress | None:
    """Parse a host written as an IP address: dotted, decimal, octal, hexadecimal, shortened or IPv6."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, ValueError):
        return None


async def _look_up_host(host: str, port: int) -> list[IpAddress]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            rows = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except TimeoutError as error:
        raise DeadlineExceeded(
            f"DNS lookup for {host} timed out after {RESOLVE_SECONDS:g} seconds", host=host
        ) from error
    except (OSError, UnicodeError) as error:
        raise FetchFailed(f"DNS lookup for {host} failed: no such host", host=host) from error
    addresses = dict.fromkeys(str(row[4][0]).partition("%")[0] for row in rows)
    if not addresses:
        raise FetchFailed(f"DNS lookup for {host} failed: no such host", host=host)
    return [ipaddress.ip_address(address) for address in addresses]
