"""The shared server of the screenshots: accounts, corpora that wait for approval, keys, and an app of OAuth."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.oauth import OAuthTestClient
from tests.support.server_process import ServerProcess, run_server_process_on_port

OPERATOR_KEY = "operator-key-of-the-screenshots"
PASSWORD = "correct horse"
NAMES = ("root", "ada", "bruno", "chidi")
CORPORA = (("Tidal measurements", True), ("Dive reports", False), ("Field notes 2026", True))


@dataclass(frozen=True)
class SharedServer:
    server: ServerProcess

    @property
    def url(self) -> str:
        return self.server.url

    async def start_authorization(self) -> str:
        """Register an app and return the address that it opens in the browser."""
        async with httpx.AsyncClient(base_url=self.url) as http:
            client = OAuthTestClient(http, self.url)
            await client.register(name="Claude Code")
        return f"{self.url}/authorize?{client.query()}"


@contextmanager
def run_shared_server(folder: Path) -> Iterator[SharedServer]:
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the address is needed before the server runs
        port = listener.getsockname()[1]
    settings = {
        "KNOWLEDGE_API_KEY": OPERATOR_KEY, "KB_MCP_API_KEY": OPERATOR_KEY, "KNOWLEDGE_AUTH_RATE_LIMIT": "off",
        "ADMIN_USERS": "root", "KNOWLEDGE_OAUTH": "1", "KNOWLEDGE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "KNOWLEDGE_ACCOUNT_MAX_DOCUMENTS": "40",
    }  # fmt: skip
    with run_server_process_on_port(port, folder, settings) as server:
        add_people(server)
        yield SharedServer(server)


def connect(server: ServerProcess, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api/v1", headers={"authorization": f"Bearer {key}"}, timeout=60)


def add_people(server: ServerProcess) -> None:
    """Add accounts, and corpora of one of them: some ask to be public."""
    with connect(server, OPERATOR_KEY) as operator:
        for name in NAMES:
            operator.post("/admin/users", json={"username": name, "password": PASSWORD}).raise_for_status()
    answer = httpx.post(f"{server.url}/api/v1/user/login", json={"username": "ada", "password": PASSWORD})
    with connect(server, answer.json()["api_key"]) as ada:
        for title, public in CORPORA:
            corpus = ada.post("/corpuses", json={"display_name": title, "is_public": public}).json()
            note = {"note": f"{title}: the first entry of the station.", "collection": corpus["name"]}
            ada.post("/jobs", json=note).raise_for_status()
        for name in ("Claude Code", "Cursor on the laptop"):
            ada.post("/user/api-keys", json={"name": name}).raise_for_status()
