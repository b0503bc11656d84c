"""A process with the parsers imported that forks one child per document (decision 0017).

Each request on its socket carries three descriptors: a pipe for the child's frames, a pipe for its standard error, and
a control socket. The server reports the child's exit on the control socket, and kills the child when the other side
closes it. When the server's own socket closes, the server exits, and its children with it.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import struct
from dataclasses import dataclass

from knowledge.extract.process import child_main
from knowledge.extract.process.child import clear_environment
from knowledge.extract.process.request import TaskRequest
from knowledge.extract.sandbox import confine as sandbox

DESCRIPTORS_PER_REQUEST = 3


@dataclass(frozen=True, slots=True)
class RunningChild:
    pid: int
    control: socket.socket


class ForkServer:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, RunningChild] = {}
        """By pidfd."""
        self._loaded_tasks: set[tuple[str, str]] = set()

    def serve(self) -> None:
        self._selector.register(self._requests, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._requests:
                    if not self._accept_request():
                        return
                elif isinstance(key.data, RunningChild):
                    self._kill_cancelled(key.data)
                else:
                    self._reap_child(key.fd)

    def _accept_request(self) -> bool:
        """Read one request and fork its child; return False when the socket is closed."""
        descriptors: list[int] = []
        data = _receive_request(self._requests, descriptors)
        if not data or len(descriptors) != DESCRIPTORS_PER_REQUEST:
            return False
        output, stderr, control = descriptors
        request = TaskRequest.load(data)
        self._load_task(request)
        pid = os.fork()
        if pid == 0:
            self._become_child(request, output, stderr)
        os.close(output)
        os.close(stderr)
        self._watch_child(RunningChild(pid, socket.socket(fileno=control)))
        return True

    def _load_task(self, request: TaskRequest) -> None:
        """Import what a new kind of task needs before the fork, so that its children share it."""
        if request.preload_key in self._loaded_tasks:
            return
        with contextlib.suppress(Exception):  # the child has the same error and reports it
            request.load_task()
            self._loaded_tasks.add(request.preload_key)
            freeze_garbage_collector()

    def _become_child(self, request: TaskRequest, output: int, stderr: int) -> None:
        try:
            os.setpgid(0, 0)
            sandbox.die_with_parent()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            child_main.redirect_stdio(stderr)
            _close_other_descriptors(output)
            child_main.run_task(request, output)
            os._exit(0)
        finally:
            os._exit(70)

    def _watch_child(self, running: RunningChild) -> None:
        process = os.pidfd_open(running.pid)
        self._children[process] = running
        self._selector.register(process, selectors.EVENT_READ)
        self._selector.register(running.control, selectors.EVENT_READ, running)
        with contextlib.suppress(OSError):
            running.control.send(json.dumps({"pid": running.pid}).encode() + b"\n")

    def _kill_cancelled(self, running: RunningChild) -> None:
        # a child that has just been reaped has a closed control socket
        if running.control.fileno() >= 0:
            _kill_process_group(running.pid)
            self._selector.unregister(running.control)

    def _reap_child(self, process: int) -> None:
        running = self._children.pop(process)
        _kill_process_group(running.pid)  # processes that the child started
        _, status, usage = os.wait4(running.pid, 0)
        self._selector.unregister(process)
        os.close(process)
        with contextlib.suppress(KeyError):
            self._selector.unregister(running.control)
        ended = {"code": os.waitstatus_to_exitcode(status), "resident": usage.ru_maxrss * 1024}
        with contextlib.suppress(OSError):
            running.control.send(json.dumps(ended).encode() + b"\n")
        running.control.close()


def _receive_request(requests: socket.socket, descriptors: list[int]) -> bytes:
    """Read one request: its length with the descriptors, then its bytes."""
    ancillary_bytes = socket.CMSG_SPACE(DESCRIPTORS_PER_REQUEST * array.array("i").itemsize)
    head, ancillary, _, _ = requests.recvmsg(4, ancillary_bytes)
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.extend(array.array("i", data))
    if len(head) < 4:
        return b""
    (length,) = struct.unpack("!I", head)
    body = bytearray()
    while len(body) < length:
        piece = requests.recv(length - len(body))
        if not piece:
            return b""
        body += piece
    return bytes(body)


def _close_other_descriptors(kept: int) -> None:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in (0, 1, 2, kept):
            with contextlib.suppress(OSError):  # the descriptor of this listing is closed already
                os.close(int(name))


def _kill_process_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def freeze_garbage_collector() -> None:
    """Move all objects out of the garbage collector, so that forked children share their pages (copy-on-write)."""
    gc.collect()
    gc.freeze()


def main(descriptor: int, preload: list[str]) -> None:
    """Import the parsers and serve until the socket is closed."""
    # terminals and service managers send these to every process; the main process then closes our socket
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child_main.redirect_stdio()
    sandbox.forbid_inspection()
    clear_environment()
    requests = socket.socket(fileno=descriptor)
    for name in preload:
        importlib.import_module(name)
    sandbox.prepare_sandbox()
    freeze_garbage_collector()
    ForkServer(requests).serve()
    os._exit(0)
