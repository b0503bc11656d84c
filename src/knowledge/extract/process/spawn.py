"""Children that are programs of their own: slower to start, but they work on every platform.

Where the kernel enforces no memory limit (macOS, Windows), the parent looks at each child's memory while it waits.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from typing import IO

from knowledge.extract.process.command import environment, program
from knowledge.extract.process.protocol import Ending
from knowledge.extract.process.stderr import LastWords

CALL = "from knowledge.extract.process.child_main import main; main()"
PIECE = 1 << 18


class SpawnedChild:
    def __init__(self, request: bytes) -> None:
        self._last_words = LastWords()
        self._process = subprocess.Popen(
            program(CALL),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._last_words.writer,
            start_new_session=True,
        )
        self._last_words.close_writer()
        self.pid: int | None = self._process.pid
        self._pieces: queue.Queue[bytes] = queue.Queue(maxsize=4)
        self._abandoned = threading.Event()
        self._reader = threading.Thread(target=self._pump, args=(request,), name="parser-pipe", daemon=True)
        self._reader.start()

    def _pump(self, request: bytes) -> None:
        """Pipes cannot be waited for with a limit on every platform; a thread and a short queue can."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            return
        try:
            stdin.write(request)
            stdin.close()
        except OSError:
            pass  # it died before it had read its request; the end of its pages says so
        while piece := _some(stdout):
            if not self._put(piece):
                return
        self._put(b"")

    def _put(self, piece: bytes) -> bool:
        while not self._abandoned.is_set():
            try:
                self._pieces.put(piece, timeout=0.2)
                return True
            except queue.Full:
                continue
        return False

    def read(self, timeout: float) -> bytes | None:
        try:
            return self._pieces.get(timeout=timeout)
        except queue.Empty:
            return None

    def kill(self) -> None:
        self._process.kill()

    def ending(self) -> Ending:
        self._abandoned.set()
        code = self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return Ending(code, 0, self._last_words.take())


def _some(stdout: IO[bytes]) -> bytes:
    read = getattr(stdout, "read1", stdout.read)
    piece: bytes = read(PIECE)
    return piece


class Spawner:
    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def child(self, request: bytes) -> SpawnedChild:
        return SpawnedChild(request)
