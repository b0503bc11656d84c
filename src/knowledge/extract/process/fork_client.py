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
from knowledge.extract.process.child import ChildExit, StderrPipe, build_command, build_environment

PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031


class ForkedChild:
    def __init__(self, output: int, stderr: StderrPipe, control: socket.socket) -> None:
        self.pid: int | None = None
        self._output = output
        self._stderr = stderr
        self._control = control
        self._poll = select.poll()
        self._poll.register(output, select.POLLIN)

    def read(self, timeout: float) -> bytes | None:
        if not self._poll.poll(timeout * 1000):
            return None
        return os.read(self._output, PIPE_BYTES)

    def kill(self) -> None:
        """The server kills its child when our end of the control socket says no more."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def wait_for_exit(self) -> ChildExit:
        os.close(self._output)
        said = self._read_exit_report()
        return ChildExit(said.get("code", -9), said.get("resident", 0), self._stderr.read_and_close())

    def _read_exit_report(self) -> dict[str, int]:
        """What the server told about the child, line by line; nothing when the server is gone too."""
        data = bytearray()
        with self._control as control, contextlib.suppress(OSError):
            while piece := control.recv(4096):
                data += piece
        said: dict[str, int] = {}
        for line in data.splitlines():
            said |= cast(dict[str, int], json.loads(line))
        return said


class ForkServerClient:
    """Our side of the fork server; it is started anew should it ever be gone."""

    def __init__(self, preload: list[str]) -> None:
        self._preload = preload
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        with self._lock:
            self._connect()

    def close(self) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            if self._process is not None:
                _wait_or_kill(self._process)
            self._socket = self._process = None

    def start_child(self, request: bytes) -> ForkedChild:
        pages, pages_out = os.pipe()
        last_words = StderrPipe()
        ours, theirs = socket.socketpair()
        _enlarge_pipe(pages_out)
        try:
            self._send_request(request, [pages_out, last_words.writer, theirs.fileno()])
        except BaseException:
            os.close(pages)
            last_words.read_and_close()
            ours.close()
            raise
        finally:
            os.close(pages_out)
            last_words.close_writer()
            theirs.close()
        return ForkedChild(pages, last_words, ours)

    def _send_request(self, request: bytes, descriptors: list[int]) -> None:
        with self._lock:
            for attempt in (1, 2):
                try:
                    connection = self._connect()
                    socket.send_fds(connection, [struct.pack("!I", len(request))], descriptors)
                    connection.sendall(request)
                    return
                except OSError as error:  # the server is gone: once more, with a new one
                    self._disconnect()
                    if attempt == 2:
                        raise Unavailable("The parsers could not be started", reason=str(error)) from error

    def _connect(self) -> socket.socket:
        if self._socket is None or self._process is None or self._process.poll() is not None:
            self._disconnect()
            self._process, self._socket = _start_server(self._preload)
        return self._socket

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            _wait_or_kill(self._process)
        self._socket = self._process = None


def _start_server(preload: list[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    call = f"from knowledge.extract.process.fork_server import main; main({theirs.fileno()}, {preload!r})"
    with theirs:
        process = subprocess.Popen(
            build_command(call),
            env=build_environment(),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    return process, ours


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """It ends by itself when its socket closes; this is for the case that it does not."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _enlarge_pipe(pipe: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)
