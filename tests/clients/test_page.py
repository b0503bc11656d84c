"""The page of clients: it lists every client, and nothing of the machine that it was made on."""

from __future__ import annotations

import re
from datetime import date

from tests.clients.client_list import CLIENTS
from tests.clients.page import HEAD, PAGE, ClientResult, render_page


def test_a_client_that_could_not_be_installed_is_listed_as_that() -> None:
    results = {client: ClientResult("1.2.3", "2025-11-25", ("stdio",), restart=True) for client in CLIENTS}
    results[CLIENTS[0]] = ClientResult()
    rows = render_page(results, date(2026, 11, 18)).splitlines()[-len(CLIENTS) :]
    assert rows[0] == "| Python SDK | `mcp` | not installed |  |  |  | 2026-11-18 |"
    assert rows[1] == "| Python SDK | `mcp` | 1.2.3 | 2025-11-25 | stdio | yes | 2026-11-18 |"


def test_the_page_lists_every_client_and_names_no_host_or_path() -> None:
    page = PAGE.read_text("utf-8")
    assert page.startswith(HEAD)
    listed = [tuple(row.split(" | ")[:2]) for row in page.removeprefix(HEAD).splitlines()]
    assert listed == [(f"| {client.name}", f"`{client.package}`") for client in CLIENTS]
    assert re.findall(r"\w+://|/(?:tmp|home|opt|root|Users)\b|127\.0\.0\.1|localhost", page) == []
