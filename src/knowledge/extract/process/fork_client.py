"""Client of the fork server, which starts a child in a few milliseconds (decision 0017). Linux only."""

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
from knowledge.extract.process.process_memory import list_child_pids

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
        """Close our side of the control socket, on which the fork server kills the child."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def wait_for_exit(self) -> ChildExit:
        os.close(self._output)
        report = self._read_exit_report()
        return ChildExit(report.get("code", -9), report.get("resident", 0), self._stderr.read_and_close())

    def _read_exit_report(self) -> dict[str, int]:
        """Return the server's JSON lines about the child, merged; empty if the server has died too."""
        data = bytearray()
        with self._control as control, contextlib.suppress(OSError):
            while piece := control.recv(4096):
                data += piece
        report: dict[str, int] = {}
        for line in data.splitlines():
            report |= cast(dict[str, int], json.loads(line))
        return report


class ForkServerClient:
    """Starts the fork server, and starts it again if it has died."""

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
            self._disconnect()

    def start_child(self, request: bytes) -> ForkedChild:
        output, output_writer = os.pipe()
        stderr = StderrPipe()
        ours, theirs = socket.socketpair()
        _enlarge_pipe(output_writer)
        try:
            self._send_request(request, [output_writer, stderr.writer, theirs.fileno()])
        except BaseException:
            os.close(output)
            stderr.read_and_close()
            ours.close()
            raise
        finally:
            os.close(output_writer)
            stderr.close_writer()
            theirs.close()
        return ForkedChild(output, stderr, ours)

    def list_pids(self) -> list[int]:
        """Return the fork server and the children that it has started."""
        process = self._process
        return [] if process is None else [process.pid, *list_child_pids(process.pid)]

    def _send_request(self, request: bytes, descriptors: list[int]) -> None:
        with self._lock:
            for attempt in (1, 2):
                try:
                    connection = self._connect()
                    socket.send_fds(connection, [struct.pack("!I", len(request))], descriptors)
                    connection.sendall(request)
                    return
                except OSError as error:  # the server has died: try once more with a new one
                    self._disconnect()
                    if attempt == 2:
                        raise Unavailable(
                            f"The fork server of the parsers does not start: {error}", reason=str(error)
                        ) from error

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
    """Wait for the server, which exits when its socket closes, and kill it if it does not."""
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _enlarge_pipe(pipe: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)
