"""A small process with the parsers loaded that forks one child for each document it is asked to read.

Over its socket come requests, each with three descriptors: a pipe for the child's pages, a pipe for its last words, and
a control socket. On the control socket the server says how the child ended; when the other side closes it, the child is
killed. When the server's own socket closes, it ends, and its children with it.
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
        """By the descriptor that stands for the process."""
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
        """Take one request; False when nobody is there any more to send one."""
        descriptors: list[int] = []
        data = _receive_request(self._requests, descriptors)
        if not data or len(descriptors) != DESCRIPTORS_PER_REQUEST:
            return False
        pages, last_words, control = descriptors
        request = TaskRequest.load(data)
        self._load_task(request)
        pid = os.fork()
        if pid == 0:
            self._become_child(request, pages, last_words)
        os.close(pages)
        os.close(last_words)
        self._watch_child(RunningChild(pid, socket.socket(fileno=control)))
        return True

    def _load_task(self, request: TaskRequest) -> None:
        """Load what a task needs the first time that one is asked for: its children then open only their document."""
        if request.preload_key in self._loaded_tasks:
            return
        with contextlib.suppress(Exception):  # the child meets the same error, and can say it
            request.load_task()
            self._loaded_tasks.add(request.preload_key)
            freeze_garbage_collector()

    def _become_child(self, request: TaskRequest, pages: int, last_words: int) -> None:
        try:
            os.setpgid(0, 0)
            sandbox.die_with_parent()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            child_main.redirect_stdio(last_words)
            _close_other_descriptors(pages)
            child_main.run_task(request, pages)
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
        """The parent closed its end; if the child ended in the same moment, there is nothing left to do."""
        if running.control.fileno() >= 0:
            _kill_process_group(running.pid)
            self._selector.unregister(running.control)

    def _reap_child(self, process: int) -> None:
        running = self._children.pop(process)
        _kill_process_group(running.pid)  # whatever else stands in its process group
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
    """One request, as one message: its length, its bytes, and the descriptors beside the length."""
    room = socket.CMSG_SPACE(DESCRIPTORS_PER_REQUEST * array.array("i").itemsize)
    head, beside, _, _ = requests.recvmsg(4, room)
    for level, kind, data in beside:
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
    """Every descriptor but the standard ones, however high the limit is."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) not in (0, 1, 2, kept):
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(int(name))


def _kill_process_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def freeze_garbage_collector() -> None:
    """Moves all objects out of the garbage collector, so that forked children keep sharing pages (copy-on-write)."""
    gc.collect()
    gc.freeze()


def main(descriptor: int, preload: list[str]) -> None:
    """Load the parsers and serve until nobody is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes our socket
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so is the end of a service, which all of its processes are told
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
