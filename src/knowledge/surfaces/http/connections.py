"""Connection limits, which uvicorn lacks: number in total and per address, and timeouts against slowloris.

Uses only documented interfaces: asyncio protocols, ASGI scopes and uvicorn's option `http`.
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
"""Client and server address of a connection; ASGI scopes have the same pair."""
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_DESCRIPTORS = 65_536
"""Highest value to which the limit on open files is raised."""
RESERVED_DESCRIPTORS = 256
"""Open files kept for the database, the index, uploads, child processes and connections being closed."""
MAX_CONNECTIONS = 10_000
"""Upper bound of the default, because each connection costs memory."""
ENGINE_PORT_DIVISOR = 8
"""One eighth of the connections is reserved for the port in engine.json."""
STALLED_SECONDS = 5.0
"""Seconds without data after which an incomplete request body may be evicted for a new connection."""


def raise_descriptor_limit() -> int:
    """Raise the limit on open files as far as the system allows, and return it."""
    try:
        import resource
    except ImportError:  # Windows has no RLIMIT_NOFILE
        return MAX_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    for wanted in (most, 10_240):  # macOS refuses more than OPEN_MAX, which is 10,240
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
    """Exempt from the limit per address, because they forward the connections of many clients."""

    @classmethod
    def from_settings(cls, settings: Settings, descriptors: int, *, for_engine_file: bool = False) -> ConnectionLimits:
        """Take the limits from the settings, or derive them from the limit on open files."""
        available = max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)
        capacity = min(available, MAX_CONNECTIONS)
        reserved = capacity // ENGINE_PORT_DIVISOR
        if for_engine_file:
            total = per_address = reserved
        else:
            total = min(settings.max_connections or capacity - reserved, available - reserved)
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
    """The request head is incomplete; the state of a new connection."""
    IDLE = "idle"
    """Between two requests."""
    BODY = "body"
    """The application waits for the rest of a request body."""
    BUSY = "busy"
    """A request is being answered, or the connection is a WebSocket; never evicted."""


EVICTION_ORDER = (ConnectionState.HEAD, ConnectionState.IDLE, ConnectionState.BODY)


@dataclass(slots=True)
class ConnectionGroup:
    """Connections that share a limit, ordered by the time they entered their state."""

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
    """Time of the last change of state, or of the last bytes of a body."""
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
        """Whether the client exceeded a timeout; RequestDeadlines handles the timeouts of bodies."""
        waited = now - self.since
        if self.state is ConnectionState.HEAD and waited > limits.header_s:
            return True
        # Uvicorn closes idle connections itself, unless extra bytes followed the last request.
        if self.state is ConnectionState.IDLE and waited > limits.keep_alive_s + limits.header_s:
            return True
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self.unsent_bytes or not self.unsent_bytes:
            self.unsent_since = now
        self.unsent_bytes = unsent
        return unsent > 0 and now - self.unsent_since > limits.write_s


class Connections:
    """The open connections of one server."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self.stopping = asyncio.Event()
        """Set when the server begins to stop."""
        self._all = ConnectionGroup()
        self._groups_by_address: dict[str, ConnectionGroup] = {}
        self._by_address_pair: dict[AddressPair, Connection] = {}

    def __len__(self) -> int:
        return self._all.size

    def admit(self, transport: asyncio.Transport) -> Connection | None:
        """Register a new connection; at a limit, evict one without a request, or return None if there is none."""
        peer = transport.get_extra_info("peername") or ("unknown", 0)
        address = network_of(peer[0])
        group = self._groups_by_address.get(address) or ConnectionGroup()
        limits = self.limits
        if group.size >= limits.per_address and not limits.is_proxy(peer[0]):
            log.warning("connection limit per address reached: %s has %d connections", address, limits.per_address)
            if not self._evict_one(group):
                return None
        if self._all.size >= limits.total:
            log.warning("connection limit reached: %d connections are open", limits.total)
            if not self._evict_one(self._all):
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
        """Return the connection of a request."""
        return self._by_address_pair.get((_host_and_port(scope.get("client")), _host_and_port(scope.get("server"))))

    def close_overdue(self) -> None:
        """Close overdue connections, and forget closed WebSockets, whose end the HTTP protocol is not told."""
        now = self._clock()
        for connection in [*self._by_address_pair.values()]:
            if connection.transport.get_extra_info("socket").fileno() < 0:
                self.forget(connection)
            elif connection.is_overdue(self.limits, now):
                self._close(connection)

    def _evict_one(self, group: ConnectionGroup) -> bool:
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
    """Return uvicorn's HTTP protocol with connection limits, for its option `http`."""

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
