"""Embeds the passages of a quarantined job in a child process, so that a crash or a hang does not affect the server.

The child loads the same model as the server. It reads JSON lines from stdin, first the model and then passages, and
writes frames to stdout: a type byte, a length, and that many bytes.
See docs/decisions/0011-jobs-that-end-the-server.md.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import IO, cast

import numpy as np

from knowledge.embed.embedder import Embedder, PassageEmbedder, Vectors
from knowledge.embed.loading import ModelChoice, ModelLoader
from knowledge.errors import Cancelled, Internal, JobCrashed, KnowledgeError, ModelUnavailable
from knowledge.extract.process.child import build_command, build_environment, find_signal_name
from knowledge.extract.sandbox import confine as sandbox
from knowledge.model import Json

log = logging.getLogger(__name__)

PASSAGES_PER_REQUEST = 8
"""Small, so that a hanging child is noticed soon."""
LOAD_SECONDS = 300.0
SECONDS_PER_CHARACTER = 0.01
"""Added to the deadline of a request: fifty times what the default model needs, for large models on slow machines."""
POLL_SECONDS = 0.1
"""Interval of the cancellation check while the child works."""
FRAME_HEADER = struct.Struct("!cI")
READY_FRAME, VECTORS_FRAME, ERROR_FRAME = b"R", b"V", b"E"
MAX_FRAME_BYTES = 16 << 20
CHILD_PROGRAM = "from knowledge.engine.ingest.embedding_child import serve; serve()"

ShouldStop = Callable[[], bool]


class EmbeddingIsolation:
    """Context manager that starts embedding children for a quarantined job and ends them."""

    def __init__(self, seconds: float, stop: ShouldStop) -> None:
        self._seconds, self._stop = seconds, stop
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> EmbeddingIsolation:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()

    def isolate_model(self, model: ModelLoader, embedder: Embedder) -> PassageEmbedder:
        """Return an embedder that runs the model in a child; a model behind an HTTP service needs no child."""
        if model.loader is None:
            return embedder
        child = EmbeddingChild(model.loader, model.choice, embedder, self._seconds, self._stop)
        self._exit_stack.callback(child.close)
        return child


class EmbeddingChild:
    """Embeds passages in a child process that starts with the first request and is killed by `close`."""

    def __init__(self, loader: str, choice: ModelChoice, embedder: Embedder, seconds: float, stop: ShouldStop) -> None:
        """`seconds` is the deadline of a request, to which SECONDS_PER_CHARACTER is added."""
        self.languages = embedder.languages
        self._dimension, self._fingerprint = embedder.dimension, embedder.fingerprint
        self._loader, self._choice, self._seconds, self._stop = loader, choice, seconds, stop
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = ThreadPoolExecutor(1, thread_name_prefix="embedding-pipe")

    def embed(self, passages: Sequence[str]) -> Vectors:
        batches = [
            passages[first : first + PASSAGES_PER_REQUEST] for first in range(0, len(passages), PASSAGES_PER_REQUEST)
        ]
        rows = [self._embed_batch(batch) for batch in batches]
        return np.concatenate(rows) if rows else np.empty((0, self._dimension), np.float32)

    def close(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
        self._pipe.shutdown()
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    cast("IO[bytes]", pipe).close()
            process.wait()

    def _embed_batch(self, passages: Sequence[str]) -> Vectors:
        process = self._start_child() if self._process is None else self._process
        seconds = self._seconds + SECONDS_PER_CHARACTER * sum(map(len, passages))
        try:
            kind, payload = self._request(process, {"passages": list(passages)}, seconds)
        except EOFError as error:
            raise JobCrashed(f"Embedding the text {_describe_exit(process)}", step="embed") from error
        except TimeoutError as error:
            raise JobCrashed(f"Embedding the text took longer than {seconds:.0f} seconds", step="embed") from error
        if kind != VECTORS_FRAME or len(payload) != len(passages) * self._dimension * 4:
            log.error("embedding in a child process failed: %s", payload[:1000].decode(errors="replace"))
            raise Internal("The passages could not be embedded")
        return np.frombuffer(payload, np.float32).reshape(len(passages), self._dimension)

    def _start_child(self) -> subprocess.Popen[bytes]:
        """Start a child and wait until it has loaded the model; a failure here is not blamed on the document."""
        process = self._process = subprocess.Popen(
            build_command(CHILD_PROGRAM),
            env=build_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches the server alone
        )
        wanted: Json = {"loader": self._loader, "choice": dump_choice(self._choice)}
        try:
            kind, payload = self._request(process, wanted, LOAD_SECONDS)
        except (EOFError, TimeoutError) as error:
            slow = f"it took longer than {LOAD_SECONDS:.0f} seconds"
            reason = slow if isinstance(error, TimeoutError) else "the process ended"
            raise _make_load_error(self._choice, reason) from error
        answer = payload.decode(errors="replace")
        if kind != READY_FRAME or answer != self._fingerprint:
            raise _make_load_error(self._choice, answer if kind == ERROR_FRAME else "the model files have changed")
        return process

    def _request(self, process: subprocess.Popen[bytes], request: Json, seconds: float) -> tuple[bytes, bytes]:
        """Return the child's answer; raises EOFError if the child ended, TimeoutError after `seconds`."""
        answer = self._pipe.submit(_send_and_receive, process, json.dumps(request).encode() + b"\n")
        deadline = time.monotonic() + seconds
        while not _is_done(answer):
            if self._stop():
                raise Cancelled("The job was cancelled")
            if time.monotonic() > deadline:
                raise TimeoutError
        return answer.result()


def _is_done(answer: Future[tuple[bytes, bytes]]) -> bool:
    with contextlib.suppress(TimeoutError):
        answer.exception(POLL_SECONDS)
    return answer.done()


def _send_and_receive(process: subprocess.Popen[bytes], request: bytes) -> tuple[bytes, bytes]:
    stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
    try:
        stdin.write(request)
        stdin.flush()
        kind, length = FRAME_HEADER.unpack(_read_exactly(stdout, FRAME_HEADER.size))
        if length > MAX_FRAME_BYTES:
            raise EOFError
        return kind, _read_exactly(stdout, length)
    except (OSError, ValueError) as error:  # the child ended, or `close` killed it and closed its pipes
        raise EOFError from error


def _read_exactly(stdout: IO[bytes], size: int) -> bytes:
    data = stdout.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _describe_exit(process: subprocess.Popen[bytes]) -> str:
    code = process.wait()
    name = find_signal_name(code)
    return f"ended its process by {name}" if name else f"ended its process with code {code}"


def _make_load_error(choice: ModelChoice, reason: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"The model {choice.name!r} could not be loaded in a child process: {reason}",
        hint="Make more memory available, or restart the server, and retry the job.",
        model=choice.name,
    )


def dump_choice(choice: ModelChoice) -> Json:
    """Serialize the choice without its API key, which the child does not need."""
    return cast(Json, {**asdict(choice), "key": None, "cache_folder": str(choice.cache_folder)})


def load_choice(body: Json) -> ModelChoice:
    fields = cast("dict[str, str]", body)
    return ModelChoice(**{**fields, "cache_folder": Path(fields["cache_folder"])})  # type: ignore[arg-type]


# -- in the child ---------------------------------------------------------------------------------


def serve() -> None:
    """Main loop of the child: load the model of the first line, and embed the passages of each further line."""
    sandbox.die_with_parent()
    for name in ("SIGINT", "SIGTERM"):  # a service manager signals all processes; the server then kills this child
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    requests, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    embedder: Embedder | None = None
    for line in requests:
        try:
            request = json.loads(line)
            if embedder is None:
                embedder = _load_embedder(request)
                _write_frame(output, READY_FRAME, embedder.fingerprint.encode())
            else:
                vectors = embedder.embed(request["passages"])
                _write_frame(output, VECTORS_FRAME, np.ascontiguousarray(vectors, np.float32).tobytes())
        except Exception as error:
            message = str(error) if isinstance(error, KnowledgeError) else f"{type(error).__name__}: {error}"
            _write_frame(output, ERROR_FRAME, message[:1000].encode(errors="replace"))
    sys.exit(0)


def _load_embedder(request: Json) -> Embedder:
    module, _, name = cast(str, request["loader"]).partition(":")
    load: Callable[[ModelChoice], Embedder] = getattr(importlib.import_module(module), name)
    return load(load_choice(cast(Json, request["choice"])))


def _write_frame(output: IO[bytes], kind: bytes, payload: bytes) -> None:
    output.write(FRAME_HEADER.pack(kind, len(payload)) + payload)
    output.flush()
