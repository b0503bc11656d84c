"""Children from a fork server: about two milliseconds each, because the parsers are loaded already. Linux only."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import subprocess
import threading
from typing import cast

from knowledge.errors import Unavailable
from knowledge.extract.process.command import environment, program
from knowledge.extract.process.protocol import Ending
from knowledge.extract.process.stderr import LastWords

ROOM_IN_PIPE = 1 << 20
F_SETPIPE_SZ = 1031


class ForkedChild:
    def __init__(self, pages: int, last_words: LastWords, control: socket.socket) -> None:
        self.pid: int | None = None
        self._pages = pages
        self._last_words = last_words
        self._control = control
        self._poll = select.poll()
        self._poll.register(pages, select.POLLIN)

    def read(self, timeout: float) -> bytes | None:
        if not self._poll.poll(timeout * 1000):
            return None
        return os.read(self._pages, ROOM_IN_PIPE)

    def kill(self) -> None:
        """The server kills its child when our end of the control socket says no more."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def ending(self) -> Ending:
        os.close(self._pages)
        said = self._said()
        return Ending(said.get("code", -9), said.get("resident", 0), self._last_words.take())

    def _said(self) -> dict[str, int]:
        """What the server told about the child, line by line; nothing when the server is gone too."""
        data = bytearray()
        with self._control as control, contextlib.suppress(OSError):
            while piece := control.recv(4096):
                data += piece
        said: dict[str, int] = {}
        for line in data.splitlines():
            said |= cast(dict[str, int], json.loads(line))
        return said


class ForkServer:
    """Our side of the fork server; it is started anew should it ever be gone."""

    def __init__(self, preload: list[str]) -> None:
        self._preload = preload
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        with self._lock:
            self._connected()

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            if self._process is not None:
                _end(self._process)
            self._socket = self._process = None

    def child(self, request: bytes) -> ForkedChild:
        pages, pages_out = os.pipe()
        last_words = LastWords()
        ours, theirs = socket.socketpair()
        _widen(pages_out)
        try:
            self._send(request, [pages_out, last_words.writer, theirs.fileno()])
        except BaseException:
            os.close(pages)
            last_words.take()
            ours.close()
            raise
        finally:
            os.close(pages_out)
            last_words.close_writer()
            theirs.close()
        return ForkedChild(pages, last_words, ours)

    def _send(self, request: bytes, descriptors: list[int]) -> None:
        with self._lock:
            for attempt in (1, 2):
                try:
                    connection = self._connected()
                    socket.send_fds(connection, [struct.pack("!I", len(request))], descriptors)
                    connection.sendall(request)
                    return
                except OSError as error:  # the server is gone: once more, with a new one
                    self._forget()
                    if attempt == 2:
                        raise Unavailable("The parsers could not be started", reason=str(error)) from error

    def _connected(self) -> socket.socket:
        if self._socket is None or self._process is None or self._process.poll() is not None:
            self._forget()
            self._process, self._socket = _launch(self._preload)
        return self._socket

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            _end(self._process)
        self._socket = self._process = None


def _launch(preload: list[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    call = f"from knowledge.extract.process.fork_server import main; main({theirs.fileno()}, {preload!r})"
    with theirs:
        process = subprocess.Popen(
            program(call),
            env=environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    return process, ours


def _end(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when its socket closes; this is for the case that it does not."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _widen(pipe: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, ROOM_IN_PIPE)
