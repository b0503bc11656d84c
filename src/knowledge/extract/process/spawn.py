"""Children that are started as new interpreters: slower than the fork server, but available on every platform.

Where the kernel enforces no memory limit (macOS, Windows), the parent polls the memory of each child while it waits.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import weakref
from typing import IO

from knowledge.extract.process.child import ChildExit, StderrPipe, build_command, build_environment

CHILD_CODE = "from knowledge.extract.process.child_main import main; main()"
READ_CHUNK_BYTES = 1 << 18


class SpawnedChild:
    def __init__(self, request: bytes) -> None:
        self._stderr = StderrPipe()
        self._process = subprocess.Popen(
            build_command(CHILD_CODE),
            env=build_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr.writer,
            start_new_session=True,
        )
        self._stderr.close_writer()
        self.pid: int | None = self._process.pid
        self._chunks: queue.Queue[bytes] = queue.Queue(maxsize=4)
        self._stopped = threading.Event()
        self._reader = threading.Thread(target=self._forward_output, args=(request,), name="parser-pipe", daemon=True)
        self._reader.start()

    def _forward_output(self, request: bytes) -> None:
        """Forward the child's output to a short queue, which gives backpressure when it is full."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            return
        try:
            stdin.write(request)
            stdin.close()
        except OSError:
            pass  # the child died before it read its request; the end of its output reports that
        while piece := _read_available(stdout):
            if not self._queue_chunk(piece):
                return
        self._queue_chunk(b"")

    def _queue_chunk(self, piece: bytes) -> bool:
        while not self._stopped.is_set():
            try:
                self._chunks.put(piece, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def read(self, timeout: float) -> bytes | None:
        try:
            return self._chunks.get(timeout=timeout)
        except queue.Empty:
            return None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def wait_for_exit(self) -> ChildExit:
        self._stopped.set()
        code = self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return ChildExit(code, 0, self._stderr.read_and_close())


def _read_available(stdout: IO[bytes]) -> bytes:
    read = getattr(stdout, "read1", stdout.read)
    piece: bytes = read(READ_CHUNK_BYTES)
    return piece


class ChildSpawner:
    def __init__(self) -> None:
        self._children: weakref.WeakSet[SpawnedChild] = weakref.WeakSet()

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def start_child(self, request: bytes) -> SpawnedChild:
        child = SpawnedChild(request)
        self._children.add(child)
        return child

    def list_pids(self) -> list[int]:
        return [child.pid for child in list(self._children) if child.pid is not None and child.is_running]
