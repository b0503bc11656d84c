"""A first session with a real server: start, add, search, restart, search again and delete."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from knowledge.engine.remote.engine import connect
from knowledge.errors import Unauthenticated

Json = dict[str, Any]
TIMEOUT_SECONDS = 60.0

TEXTS = {
    "tea.md": "# Tea\n\nGreen tea is brewed at eighty degrees for two minutes.",
    "boiler.txt": "The heating of the house is serviced every autumn by the plumber.",
    "towns.csv": "town,river\nBern,Aare\nBasel,Rhine\n",
}


@dataclass(frozen=True)
class RunningServer:
    process: subprocess.Popen[str]
    url: str

    async def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), TIMEOUT_SECONDS)


@asynccontextmanager
async def run_server(data: Path, **environment: str) -> AsyncIterator[RunningServer]:
    """Run `knowledge serve` on a free port until the block ends."""
    command = [sys.executable, "-m", "knowledge", "--data", str(data), "serve", "--port", "0"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env={**inherited, **environment}, text=True, **pipes) as process:  # type: ignore[call-overload]
        try:
            url = await asyncio.wait_for(asyncio.to_thread(_read_address, process), TIMEOUT_SECONDS)
            listening = asyncio.create_task(asyncio.to_thread(process.stderr.read))
            await asyncio.wait_for(_wait_until_healthy(url), TIMEOUT_SECONDS)
            yield RunningServer(process, url)
        finally:
            process.kill()
        assert process.stdout.read() == ""  # stdout is reserved for results
        await listening


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if address := re.search(r"http://\S+:\d+", line):
            return address[0]
    raise AssertionError("".join(seen))


async def _wait_until_healthy(url: str) -> None:
    async with httpx.AsyncClient() as http:
        while (reply := await http.get(f"{url}/health")).status_code != 200:
            assert reply.json() == {"status": "starting"}
            await asyncio.sleep(0.05)


async def _wait_for_model(http: httpx.AsyncClient) -> None:
    while not (await http.get("/status")).json()["model"]["loaded"]:
        await asyncio.sleep(0.05)


async def search_filenames(http: httpx.AsyncClient, question: str, **fields: object) -> list[str]:
    reply = await http.post("/search", json={"query": question, **fields})
    assert reply.status_code == 200, reply.text
    return [hit["filename"] for hit in reply.json()["results"]]


async def add_file(http: httpx.AsyncClient, name: str, text: str) -> int:
    reply = await http.post("/jobs", files={"file": (name, text.encode())}, data={"tags": "first, steps"})
    assert reply.status_code == 202, reply.text
    engine = connect(str(http.base_url).removesuffix("/api/v1/"))
    job = await engine.wait(reply.json()["job_id"], TIMEOUT_SECONDS)
    await engine.close()
    assert job.status == "completed", job
    assert job.document_id is not None
    return job.document_id


async def test_documents_are_found_after_a_restart_and_gone_after_their_deletion(tmp_path: Path) -> None:
    async with (
        run_server(tmp_path) as running,
        httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=TIMEOUT_SECONDS) as http,
    ):
        ids = {name: await add_file(http, name, text) for name, text in TEXTS.items()}
        assert (await search_filenames(http, "how hot should the water for green tea be", top=1)) == ["tea.md"]
        assert (await search_filenames(http, "Rhine", mode="text")) == ["towns.csv"]
        before: Json = (await http.get(f"/documents/{ids['tea.md']}")).json()
        assert await running.stop() == 0

    async with (
        run_server(tmp_path) as running,
        httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=TIMEOUT_SECONDS) as http,
    ):
        assert (await http.get(f"/documents/{ids['tea.md']}")).json() == before
        assert (await search_filenames(http, "how hot should the water for green tea be", top=1)) == ["tea.md"]
        await asyncio.wait_for(_wait_for_model(http), TIMEOUT_SECONDS)
        assert (await search_filenames(http, "who looks after the radiators", mode="vector", top=1)) == ["boiler.txt"]
        for number in ids.values():
            assert (await http.delete(f"/documents/{number}")).status_code == 200
        assert await search_filenames(http, "green tea") == []
        assert (await http.get(f"/documents/{ids['tea.md']}")).status_code == 404
        assert (await http.post("/verify")).json() == {"clean": True, "findings": []}
        assert await running.stop(signal.SIGINT) == 0

    async with (
        run_server(tmp_path) as running,
        httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=TIMEOUT_SECONDS) as http,
    ):
        assert await search_filenames(http, "green tea") == []
        assert (await http.get("/status")).json()["documents"] == 0


async def test_a_stop_queues_running_jobs_again(tmp_path: Path) -> None:
    long = "\n\n".join(
        f"# Chapter {n}\n\n" + f"Sentence {n} speaks about the weather of that year. " * 40 for n in range(15)
    )
    async with (
        run_server(tmp_path) as running,
        httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=TIMEOUT_SECONDS) as http,
    ):
        reply = await http.post("/jobs", files={"file": ("weather.md", long.encode())})
        job_id = reply.json()["job_id"]
        assert await running.stop() == 0

    async with run_server(tmp_path) as running:
        engine = connect(running.url)
        job = await engine.wait(job_id, TIMEOUT_SECONDS)
        assert job.status == "completed"
        assert job.document_id is not None
        assert (await engine.document(job.document_id)).chunk_count > 15
        await engine.close()


async def test_a_key_keeps_others_out(tmp_path: Path) -> None:
    async with run_server(tmp_path, KB_API_KEY="open sesame", KNOWLEDGE_EMBEDDING="none") as running:
        stranger, friend = connect(running.url), connect(running.url, "open sesame")
        with pytest.raises(Unauthenticated):
            await stranger.status()
        assert (await friend.status()).documents == 0
        await stranger.close()
        await friend.close()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_without_keys_is_not_opened_to_the_network(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "knowledge", "--data", str(tmp_path), "serve", "--port", "0", "--host", host]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("KNOWLEDGE_", "KB_"))}
    ended = subprocess.run(command, env=inherited, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    assert ended.returncode != 0
    assert "KB_API_KEY and KB_MCP_API_KEY" in ended.stderr
    assert "Traceback" not in ended.stderr
