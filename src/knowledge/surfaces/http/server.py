"""The HTTP server: opens the sockets first, then serves with uvicorn until a signal, with graceful shutdown."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from knowledge.config import Settings
from knowledge.errors import Unavailable
from knowledge.surfaces.http.auth import Authenticator
from knowledge.surfaces.http.connections import (
    ConnectionLimits,
    Connections,
    make_protocol_class,
    raise_descriptor_limit,
)
from knowledge.surfaces.http.deadlines import RequestDeadlines
from knowledge.surfaces.http.guard import RefusalReport, wrap_in_guard
from knowledge.surfaces.http.logs import RequestLog
from knowledge.surfaces.http.rate_limits import RateLimits

STOP_SECONDS = 10
"""Graceful shutdown: seconds that requests in flight may take after a stop signal."""
MAX_WEBSOCKET_BYTES = 4 << 20
"""The same limit as for an MCP request over HTTP."""
LISTEN_BACKLOG = 2048
"""Connections that the kernel queues until they are accepted."""
ACCEPTS_PER_LOOP = 16
"""Connections accepted per loop iteration; asyncio logs every one that fails for lack of file descriptors."""
TICKS_PER_SWEEP = 5
"""Uvicorn ticks ten times a second, so overdue connections are closed twice a second."""
STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform == "win32":
    STOP_SIGNALS.append(signal.SIGBREAK)


def wrap_in_guard_and_log(
    app: ASGIApp,
    settings: Settings,
    authenticator: Authenticator | None = None,
    rates: RateLimits | None = None,
    report_refusal: RefusalReport | None = None,
) -> ASGIApp:
    """Wrap an application in the guard and the request log."""
    return RequestLog(wrap_in_guard(app, settings, authenticator, rates, report_refusal))


@dataclass(frozen=True, slots=True)
class ServerAddress:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class HttpServer(uvicorn.Server):
    """Uvicorn's server without re-raising the stop signal, so that the program can close the engine afterwards.

    A process may run a second server for engine.json; only the main one handles signals.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections, *, signals: bool) -> None:
        super().__init__(config)
        self.connections = connections
        self._handles_signals = signals and threading.current_thread() is threading.main_thread()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if not self._handles_signals:
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Shut down gracefully on the first signal, at once on the second."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for taken in sockets or []:  # asyncio has set the backlog to ACCEPTS_PER_LOOP
            taken.listen(LISTEN_BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SWEEP == 0:
            self.connections.close_overdue()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.connections.stopping.set()
        await super().shutdown(sockets)

    def stop(self) -> None:
        self.should_exit = True


def open_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind all addresses of a host before anything else starts; port 0 picks a free one."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            chosen = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_open_socket(family, kind, protocol, (address[0], chosen, *address[2:])))
    except OSError as error:
        for taken in sockets:
            taken.close()
        raise Unavailable(
            f"Cannot listen on {host} port {port}: {error.strerror or error}",
            hint="Choose another port with --port, or stop the program that uses this one.",
            host=host,
            port=port,
        ) from error
    return sockets


def _open_socket(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    taken = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # on Windows it would let a second program share the port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(address)
        taken.listen(LISTEN_BACKLOG)
        taken.setblocking(False)
    except OSError:
        taken.close()
        raise
    return taken


def make_server(app: ASGIApp, limits: ConnectionLimits | None = None, *, signals: bool = False) -> HttpServer:
    connections = Connections(limits or ConnectionLimits())
    return HttpServer(
        uvicorn.Config(
            RequestDeadlines(app, connections),
            http=make_protocol_class(connections),
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="auto",
            backlog=ACCEPTS_PER_LOOP,
            timeout_keep_alive=connections.limits.keep_alive_s,
            ws_max_size=MAX_WEBSOCKET_BYTES,
            timeout_graceful_shutdown=STOP_SECONDS,
        ),
        connections,
        signals=signals,
    )


async def serve_until_signal(
    app: ASGIApp,
    settings: Settings,
    host: str,
    port: int,
    on_listening: Callable[[ServerAddress], None] | None = None,
    sockets: list[socket.socket] | None = None,
) -> None:
    """Serve until a stop signal; return when the last response is sent."""
    sockets = sockets or open_sockets(host, port)
    if on_listening is not None:
        on_listening(ServerAddress(host, sockets[0].getsockname()[1]))
    limits = ConnectionLimits.from_settings(settings, raise_descriptor_limit())
    await make_server(app, limits, signals=True).serve(sockets=sockets)
