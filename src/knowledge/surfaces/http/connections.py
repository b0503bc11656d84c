"""Limits on the connections of a server: how many there may be, in total and from one address, and how long one may
keep the server waiting (slowloris). Uvicorn has none of them.

Only asyncio's protocol interface, ASGI scopes and uvicorn's option `http` are used, so it depends on nothing that
uvicorn does not document.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias, cast

from starlette.types import Scope
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from knowledge.config import Settings
from knowledge.surfaces.http.rate_limits import network_of

log = logging.getLogger(__name__)

AddressPair: TypeAlias = tuple[object, object]
"""Both ends of a connection, by which its requests are known."""
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_DESCRIPTORS = 65_536
"""What the limit on open files is raised to, at most."""
RESERVED_DESCRIPTORS = 256
"""Open files that no connection takes: the database, the index, uploads, child processes, connections being closed."""
MAX_CONNECTIONS = 10_000
"""Where descriptors allow more: each connection costs memory too."""
ENGINE_PORT_DIVISOR = 8
"""One connection in so many is kept for the port that engine.json names."""
STALLED_SECONDS = 5.0
"""An unfinished body that brought nothing for so long may be closed to make room for another connection."""


def raise_descriptor_limit() -> int:
    """Raise the limit on open files as far as the system lets us; returns what it is now."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    for wanted in (most, 10_240):  # macOS has a second limit, and 10,240 is below it
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            break
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        soft = wanted
    return most if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    total: int = 1000
    per_address: int = 500
    header_s: float = 20.0
    body_s: float = 60.0
    keep_alive_s: int = 5
    write_s: float = 300.0
    proxies: tuple[Network, ...] = ()
    """Whom the limit for one address does not hold for: they bring the connections of many."""

    @classmethod
    def from_settings(cls, settings: Settings, descriptors: int, *, for_engine_file: bool = False) -> ConnectionLimits:
        """What the settings say, or what follows from the limit on open files."""
        available = max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)
        room = min(available, MAX_CONNECTIONS)
        kept = room // ENGINE_PORT_DIVISOR
        if for_engine_file:
            total = per_address = kept
        else:
            total = min(settings.max_connections or room - kept, available - kept)
            per_address = settings.max_connections_per_address or max(total // 2, 1)
        return cls(
            total=total,
            per_address=per_address,
            header_s=settings.header_timeout_s,
            body_s=settings.body_timeout_s,
            keep_alive_s=settings.keep_alive_s,
            write_s=settings.write_timeout_s,
            proxies=tuple(
                ipaddress.ip_network(text.strip(), strict=False)
                for text in settings.trusted_proxies.split(",") if text.strip()
            ),
        )  # fmt: skip

    def is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self.proxies)


class ConnectionState(Enum):
    HEAD = "head"
    """The head of a request is not complete; a new connection begins here."""
    IDLE = "idle"
    """Between two requests."""
    BODY = "body"
    """The application waits for the rest of a body."""
    BUSY = "busy"
    """A request is being answered, or the connection has become a WebSocket: never closed to make room."""


EVICTION_ORDER = (ConnectionState.HEAD, ConnectionState.IDLE, ConnectionState.BODY)


@dataclass(slots=True)
class ConnectionGroup:
    """Connections that are counted together; in each state in the order in which they entered it."""

    size: int = 0
    by_state: dict[ConnectionState, OrderedDict[Connection, None]] = field(
        default_factory=lambda: {state: OrderedDict() for state in EVICTION_ORDER}
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class Connection:
    transport: asyncio.Transport
    address_pair: AddressPair
    address: str
    groups: tuple[ConnectionGroup, ...]
    clock: Callable[[], float]
    state: ConnectionState = ConnectionState.BUSY
    since: float = 0.0
    """When it entered its state, or when the last bytes of a body came."""
    requests: int = 0
    is_counted: bool = True
    unsent_bytes: int = 0
    unsent_since: float = 0.0

    def enter_state(self, state: ConnectionState) -> None:
        if not self.is_counted:
            return
        for group in self.groups:
            if self.state is not ConnectionState.BUSY:
                group.by_state[self.state].pop(self, None)
            if state is not ConnectionState.BUSY:
                group.by_state[state][self] = None
        self.state, self.since = state, self.clock()

    def note_received_bytes(self) -> None:
        """Bytes came in."""
        if self.state is ConnectionState.IDLE:
            self.enter_state(ConnectionState.HEAD)
        elif self.state is ConnectionState.BODY:
            self.enter_state(ConnectionState.BODY)

    def begin_request(self) -> None:
        self.requests += 1
        self.enter_state(ConnectionState.BUSY)

    def end_request(self) -> None:
        self.requests -= 1
        if not self.requests:
            self.enter_state(ConnectionState.IDLE)

    def is_overdue(self, limits: ConnectionLimits, now: float) -> bool:
        """Whether it kept us waiting for too long; bodies are timed where they are read."""
        waited = now - self.since
        if self.state is ConnectionState.HEAD and waited > limits.header_s:
            return True
        # Uvicorn closes idle connections itself, unless bytes came with the request that was answered last.
        if self.state is ConnectionState.IDLE and waited > limits.keep_alive_s + limits.header_s:
            return True
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self.unsent_bytes or not self.unsent_bytes:
            self.unsent_since = now
        self.unsent_bytes = unsent
        return unsent > 0 and now - self.unsent_since > limits.write_s


class Connections:
    """Every connection of one server."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._all = ConnectionGroup()
        self._groups_by_address: dict[str, ConnectionGroup] = {}
        self._by_address_pair: dict[AddressPair, Connection] = {}

    def __len__(self) -> int:
        return self._all.size

    def admit(self, transport: asyncio.Transport) -> Connection | None:
        """Count a new connection. At a limit, one that has asked for nothing is closed for it; otherwise None."""
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        address = network_of(peer[0])
        group = self._groups_by_address.get(address) or ConnectionGroup()
        limits = self.limits
        if group.size >= limits.per_address and not limits.is_proxy(peer[0]):
            log.warning("%s has %d connections, which is the limit for one address", address, limits.per_address)
            if not self._make_room(group):
                return None
        if self._all.size >= limits.total:
            log.warning("there are %d connections, which is the limit", limits.total)
            if not self._make_room(self._all):
                return None
        ends = (_host_and_port(peer), _host_and_port(transport.get_extra_info("sockname")))
        connection = Connection(transport, ends, address, (self._all, group), self._clock)
        for counted in connection.groups:
            counted.size += 1
        connection.enter_state(ConnectionState.HEAD)
        self._groups_by_address[address] = group
        self._by_address_pair[ends] = connection
        return connection

    def forget(self, connection: Connection) -> None:
        if not connection.is_counted:
            return
        connection.enter_state(ConnectionState.BUSY)
        connection.is_counted = False
        if self._by_address_pair.get(connection.address_pair) is connection:
            del self._by_address_pair[connection.address_pair]
        for group in connection.groups:
            group.size -= 1
        if not connection.groups[1].size:
            self._groups_by_address.pop(connection.address, None)

    def find_by_scope(self, scope: Scope) -> Connection | None:
        """The connection by which a request came."""
        return self._by_address_pair.get((_host_and_port(scope.get("client")), _host_and_port(scope.get("server"))))

    def close_overdue(self) -> None:
        """Close what is overdue, and forget WebSockets that are closed: their end is not told to the HTTP protocol."""
        now = self._clock()
        for connection in [*self._by_address_pair.values()]:
            if connection.transport.get_extra_info("socket").fileno() < 0:
                self.forget(connection)
            elif connection.is_overdue(self.limits, now):
                self._close(connection)

    def _make_room(self, group: ConnectionGroup) -> bool:
        for state in EVICTION_ORDER:
            oldest = next(iter(group.by_state[state]), None)
            if oldest is None or (state is ConnectionState.BODY and self._clock() - oldest.since < STALLED_SECONDS):
                continue
            self._close(oldest)
            return True
        return False

    def _close(self, connection: Connection) -> None:
        connection.transport.abort()
        self.forget(connection)


def _host_and_port(end: Any) -> object:
    return (end[0], end[1]) if isinstance(end, tuple | list) and len(end) >= 2 else end


REFUSAL_TEXT = b"The server has too many connections. Try again later.\n"
REFUSAL_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(REFUSAL_TEXT), REFUSAL_TEXT)
)


def make_protocol_class(connections: Connections) -> type[asyncio.Protocol]:
    """Uvicorn's HTTP protocol, with every connection counted; for its option `http`."""

    class CountedProtocol(asyncio.Protocol):
        def __init__(self, **given: Any) -> None:
            self._http = AutoHTTPProtocol(**given)
            self._connection: Connection | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            stream = cast(asyncio.Transport, transport)
            self._connection = connections.admit(stream)
            if self._connection is None:
                stream.write(REFUSAL_RESPONSE)
                stream.close()
                return
            self._http.connection_made(stream)

        def data_received(self, data: bytes) -> None:
            if self._connection is not None:
                self._connection.note_received_bytes()
                self._http.data_received(data)

        def eof_received(self) -> bool | None:
            return self._http.eof_received() if self._connection is not None else None

        def pause_writing(self) -> None:
            if self._connection is not None:
                self._http.pause_writing()

        def resume_writing(self) -> None:
            if self._connection is not None:
                self._http.resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._connection is not None:
                connections.forget(self._connection)
                self._http.connection_lost(exc)

    return CountedProtocol
