"""A web site on loopback that serves the pages of a test and records the requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

DEFAULT_TEXT = (
    "The kettle whistles in the kitchen while the tea is steeping, and nobody minds the rain outside the window."
)


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    headers: dict[str, str]


@dataclass(frozen=True)
class SiteReply:
    body: bytes | str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "text/html"

    @property
    def data(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body


PageReply: TypeAlias = SiteReply | Callable[[ReceivedRequest], SiteReply]


def make_page(title: str, *links: str, text: str = "", head: str = "") -> str:
    """Return an HTML page with some text and links."""
    anchors = " ".join(f'<p>See also <a href="{link}">{link}</a>.</p>' for link in links)
    return (
        f"<!doctype html><html lang=en><head><title>{title}</title>{head}</head>"
        f"<body><main><h1>{title}</h1><p>{title}: {text or DEFAULT_TEXT}</p>{anchors}</main></body></html>"
    )


class WebSite:
    def __init__(self) -> None:
        self.pages: dict[str, PageReply] = {}
        self.requests: list[ReceivedRequest] = []
        self.default_reply: PageReply = SiteReply("<h1>Not found</h1>", 404)
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer_request(self)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing; tests read `requests`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put_page(self, path: str, *links: str, **facts: str) -> None:
        self.pages[path] = SiteReply(make_page(facts.pop("title", f"Page {path}"), *links, **facts))

    def list_requested_paths(self) -> list[str]:
        """Return the requested paths without robots.txt, sitemap.xml and llms.txt."""
        crawler_files = ("/robots.txt", "/sitemap.xml", "/llms.txt")
        return [received.path for received in self.requests if received.path not in crawler_files]

    def answer_request(self, request: BaseHTTPRequestHandler) -> None:
        received = ReceivedRequest(
            request.command, request.path, {name.lower(): value for name, value in request.headers.items()}
        )
        self.requests.append(received)
        found = self.pages.get(request.path, self.default_reply)
        reply = found(received) if callable(found) else found
        request.send_response(reply.status)
        headers = {"Content-Type": reply.content_type, "Content-Length": str(len(reply.data)), **reply.headers}
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD" and reply.status != 304:
            request.wfile.write(reply.data)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serve_site() -> Iterator[WebSite]:
    site = WebSite()
    try:
        yield site
    finally:
        site.close()
