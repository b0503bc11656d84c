"""A fake embedding service with the OpenAI API that fails on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from knowledge.model import Json

DIMENSION = 4


@dataclass
class EmbeddingReply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """None for a vector of each text."""


@dataclass
class EmbeddingService:
    """Replies with `scripted` in order, then with `default`, and records the requests and keys."""

    url: str = ""
    scripted: list[EmbeddingReply] = field(default_factory=list)
    default: EmbeddingReply = field(default_factory=EmbeddingReply)
    requests: list[Json] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def answer(self, request: Json) -> EmbeddingReply:
        answer = self.scripted.pop(0) if self.scripted else self.default
        texts = request["input"]
        assert isinstance(texts, list)
        rows = [{"index": place, "embedding": make_vector(str(text))} for place, text in enumerate(texts)]
        body = json.dumps({"object": "list", "data": rows[::-1]}).encode()  # clients must use the index
        return EmbeddingReply(answer.status, answer.headers, body if answer.body is None else answer.body)


def make_vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 2.0, 3.0]


@contextmanager
def serve_embeddings(service: EmbeddingService) -> Iterator[EmbeddingService]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.requests.append(request)
            service.keys.append(self.headers["Authorization"])
            answer = service.answer(request) if self.path == "/v1/embeddings" else EmbeddingReply(404, {}, b"not here")
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body or b""))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
