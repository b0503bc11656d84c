"""Renders `docs/reference/clients.md` from the results of `make clients`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.clients.client_list import CLIENTS, McpClient

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
HEAD = """# Clients

<!-- Written by `make clients`; do not edit. -->

Each client is installed from its registry, connects to a real `knowledge serve`, lists the tools and calls
`knowledge-search`. Then the server is killed and started again on the same port and data folder, and the client calls
again on the session that it has. Over stdio the client starts the server itself. `make clients` repeats this and writes
this page. Clients of the protocol version 2026-07-28 have no session; the others made the handshake only once.

| client | package | version | protocol | transports | goes on after a restart | date |
|---|---|---|---|---|---|---|
"""


@dataclass(slots=True)
class ClientResult:
    version: str | None = None
    """None if the client could not be installed."""
    protocol: str = ""
    transports: tuple[str, ...] = ()
    restart: bool = False


def render_page(results: dict[McpClient, ClientResult], day: date) -> str:
    return HEAD + "".join(f"{row}\n" for row in _render_rows(results, day))


def _render_rows(results: dict[McpClient, ClientResult], day: date) -> Iterable[str]:
    for client in CLIENTS:
        result = results[client]
        if result.version is None:
            cells = ["not installed", "", "", ""]
        else:
            transports = ", ".join(result.transports) or "none"
            cells = [result.version, result.protocol, transports, "yes" if result.restart else "no"]
        yield f"| {' | '.join([client.name, f'`{client.package}`', *cells, day.isoformat()])} |"
