"""Installs the clients once in a session, and writes the page of results when `--write-page` is given."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.clients.client_list import CLIENTS, McpClient
from tests.clients.install import ClientInstaller
from tests.clients.page import PAGE, ClientResult, render_page

WRITE_PAGE = "--write-page"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(WRITE_PAGE, action="store_true", help=f"write docs/reference/{PAGE.name}")


@pytest.fixture(scope="session")
def installer(tmp_path_factory: pytest.TempPathFactory) -> ClientInstaller:
    return ClientInstaller(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> Iterator[dict[McpClient, ClientResult]]:
    """The result of each client; the page is written only if all of them ran."""
    collected: dict[McpClient, ClientResult] = {}
    yield collected
    if request.config.getoption(WRITE_PAGE, default=False) and set(collected) == set(CLIENTS):
        PAGE.write_text(render_page(collected, datetime.now(UTC).date()), "utf-8")
