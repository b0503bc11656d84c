"""Makes a map in a child process of low priority, so that searches wait neither for the interpreter nor for a core.

The child reads one request from stdin and writes one answer to stdout: sizes, vectors and JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from knowledge.engine.maps.clusters import find_clusters, fit_places
from knowledge.engine.maps.projection import Matrix, project
from knowledge.engine.maps.telling_words import MappedPassage, find_telling_words
from knowledge.errors import Internal
from knowledge.extract.process.child import SINGLE_THREAD_VARIABLES, build_command, build_environment
from knowledge.extract.sandbox import confine as sandbox

REQUEST_HEADER = struct.Struct("!III")
"""Number and dimension of the vectors, and the length of the JSON that follows them."""
MAX_SECONDS = 900.0
LOWEST_PRIORITY = 19
PLACE_DIGITS = 4
CHILD_PROGRAM = "from knowledge.engine.maps.child import serve; serve()"


@dataclass(frozen=True, slots=True)
class MapLayout:
    """Where passages are on a map, in the order in which they were given."""

    places: list[tuple[float, float]]
    clusters: list[int]
    words: list[list[list[tuple[int, int, int]]]]
    """For each cluster its words, for each word some places: passage, start and end."""


class MapProcess:
    """Runs at most one child at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def make(self, vectors: Matrix, passages: Sequence[MappedPassage]) -> MapLayout:
        """Return the layout of passages; raises Internal if the child fails or is closed."""
        process = self._start()
        try:
            answer, _ = process.communicate(dump_request(vectors, passages), timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise Internal(f"Making a map took longer than {MAX_SECONDS:.0f} seconds") from error
        finally:
            self._end(process)
        if process.returncode != 0:
            raise Internal(f"The process that makes a map ended with code {process.returncode}")
        return load_layout(answer)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise Internal("The engine is shutting down")
            self._process = subprocess.Popen(
                build_command(CHILD_PROGRAM),
                env=build_environment() | SINGLE_THREAD_VARIABLES,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C reaches the server alone
                creationflags=getattr(subprocess, "IDLE_PRIORITY_CLASS", 0),
            )
            return self._process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._process = None
        if process.poll() is None:
            process.kill()
            process.communicate()


def dump_request(vectors: Matrix, passages: Sequence[MappedPassage]) -> bytes:
    texts = json.dumps([astuple(passage) for passage in passages]).encode()
    header = REQUEST_HEADER.pack(*vectors.shape, len(texts))
    return header + np.ascontiguousarray(vectors, np.float32).tobytes() + texts


def load_request(data: bytes) -> tuple[Matrix, list[MappedPassage]]:
    count, dimension, length = REQUEST_HEADER.unpack_from(data)
    vectors = np.frombuffer(data, np.float32, count * dimension, REQUEST_HEADER.size).reshape(count, dimension)
    return vectors, [MappedPassage(*each) for each in json.loads(data[len(data) - length :])]


def load_layout(answer: bytes) -> MapLayout:
    body: dict[str, Any] = json.loads(answer)
    return MapLayout(
        places=[(x, y) for x, y in body["places"]],
        clusters=body["clusters"],
        words=[[[(at, start, end) for at, start, end in word] for word in words] for words in body["words"]],
    )


# -- in the child ---------------------------------------------------------------------------------


def serve() -> None:
    """Main function of the child."""
    sandbox.die_with_parent()
    for name in ("SIGINT", "SIGTERM"):  # a service manager signals all processes; the server then kills this child
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(LOWEST_PRIORITY)
    vectors, passages = load_request(sys.stdin.buffer.read())
    sys.stdout.buffer.write(json.dumps(lay_out(vectors, passages)).encode())


def lay_out(vectors: Matrix, passages: Sequence[MappedPassage]) -> dict[str, Any]:
    places = fit_places(project(vectors))
    clusters = find_clusters(places)
    words = find_telling_words(passages, clusters.tolist(), int(clusters.max()) + 1)
    return {
        "places": [[round(x, PLACE_DIGITS), round(y, PLACE_DIGITS)] for x, y in places.tolist()],
        "clusters": clusters.tolist(),
        "words": [[[astuple(place) for place in word] for word in found] for found in words],
    }
