"""Serving an application over HTTP: the address is taken first and told, and a stop finishes what is being answered."""

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
from knowledge.surfaces.auth import Keys
from knowledge.surfaces.guard import guarded
from knowledge.surfaces.limits import RateLimits
from knowledge.surfaces.logs import RequestLog

STOP_SECONDS = 10
"""How long answers that are under way may take once a stop was asked for."""
WS_MAX_BYTES = 4 << 20
"""The largest message of a WebSocket: as much as a request over HTTP may hold."""
SIGNALS = [signal.SIGINT, signal.SIGTERM]
if sys.platform == "win32":
    SIGNALS.append(signal.SIGBREAK)


def front(app: ASGIApp, settings: Settings, keys: Keys | None = None, rates: RateLimits | None = None) -> ASGIApp:
    """The application as the world meets it: behind its guard, and every request in the log."""
    return RequestLog(guarded(app, settings, keys, rates))


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Server(uvicorn.Server):
    """Uvicorn, except that a signal ends it and then lets the program go on to close what it opened.

    Only one server of a process listens to signals: the one that it was started for.
    """

    def __init__(self, config: uvicorn.Config, *, signals: bool) -> None:
        super().__init__(config)
        self._signals = signals and threading.current_thread() is threading.main_thread()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        if not self._signals:
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal finishes what is being answered, a second one does not wait for that."""
        self.force_exit = self.should_exit
        self.should_exit = True

    def stop(self) -> None:
        self.should_exit = True


def listen(host: str, port: int) -> list[socket.socket]:
    """Take the address, before anything else is started; 0 takes any free port."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            chosen = sockets[0].getsockname()[1] if sockets else port
            sockets.append(_bound(family, kind, protocol, (address[0], chosen, *address[2:])))
    except OSError as error:
        for taken in sockets:
            taken.close()
        raise Unavailable(
            f"Cannot listen on {host} port {port}: {error.strerror or error}",
            hint="Choose another with --port, or stop the program that has it.",
            host=host,
            port=port,
        ) from error
    return sockets


def _bound(family: int, kind: int, protocol: int, address: tuple[object, ...]) -> socket.socket:
    taken = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let a second program share the port
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind(address)
        taken.listen(2048)
        taken.setblocking(False)
    except OSError:
        taken.close()
        raise
    return taken


def make_server(app: ASGIApp, *, signals: bool = False) -> Server:
    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            lifespan="auto",
            ws_max_size=WS_MAX_BYTES,
            timeout_graceful_shutdown=STOP_SECONDS,
        ),
        signals=signals,
    )


async def serve(app: ASGIApp, host: str, port: int, listening: Callable[[Address], None] | None = None) -> None:
    """Answer until a signal asks to stop; returns when the last answer is out."""
    sockets = listen(host, port)
    if listening is not None:
        listening(Address(host, sockets[0].getsockname()[1]))
    await make_server(app, signals=True).serve(sockets=sockets)
