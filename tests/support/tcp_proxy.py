"""A TCP proxy on a loopback port that can be away, or slow."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_BYTES = 1 << 16


class TcpProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.delay_seconds = 0.0
        """Wait before each piece of an answer."""
        self.cut_after_bytes: int | None = None
        """Cut the next connection off after so many bytes of its answers, once."""
        self.connections = 0
        self.come_back()

    def come_back(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.port, self._listener = listener.getsockname()[1], listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def go_away(self) -> None:
        """Refuse new connections and cut off those that are open."""
        with self._lock:
            listener, self._listener = self._listener, None
            closing = [*self._open, *([listener] if listener else [])]
            self._open.clear()
        for each in closing:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open |= {client, server}
            threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                if is_answer and self.delay_seconds:
                    time.sleep(self.delay_seconds)
                if is_answer and self.cut_after_bytes is not None:
                    self.cut_after_bytes -= len(piece)
                    if self.cut_after_bytes <= 0:
                        self.cut_after_bytes = None
                        break
                target.sendall(piece)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            with self._lock:
                self._open.discard(each)


@contextmanager
def run_proxy(target_port: int) -> Iterator[TcpProxy]:
    proxy = TcpProxy(target_port)
    try:
        yield proxy
    finally:
        proxy.go_away()
