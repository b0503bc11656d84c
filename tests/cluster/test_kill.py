"""Kills each component of compose.cluster.yaml with SIGKILL while clients add documents through the load balancer."""

from __future__ import annotations

import random
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import httpx
import pytest

from tests.cluster.deployment import KEYS, SERVERS, START_SECONDS, Deployment, add_note, find_titles, run_deployment
from tests.cluster.server_pair import make_word
from tests.support.postgres import MISSING, PostgresServer, find_binaries, run_postgres
from tests.support.server_process import wait_until

COMPONENTS = (*SERVERS, "postgres", "s3", "balancer")
ROUNDS, ADDS_PER_ROUND, CLIENTS = 20, 10, 4
TRIES_BEFORE_KILL, TRIES_WHILE_AWAY, AWAY_SECONDS = 3, 3, 5.0
CLIENT_SECONDS = 300.0
ORIGINAL_KEY = re.compile(r"knowledge/[0-9a-f]{2}/[0-9a-f]{64}")
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class Clients:
    """Clients that repeat a refused add with the same uid until it is accepted."""

    def __init__(self, deployment: Deployment) -> None:
        self._url = f"http://127.0.0.1:{deployment.ports['balancer']}"
        self._changed = threading.Condition()
        self.tries = 0
        self.refused: Counter[str] = Counter()
        self.jobs: dict[int, int] = {}

    def add(self, number: int) -> None:
        """Add a numbered note."""
        wait_until(lambda: self._try_add(number), CLIENT_SECONDS)

    def _try_add(self, number: int) -> bool:
        try:
            with httpx.Client(base_url=self._url, headers=make_headers(), timeout=120) as http:
                self.jobs[number] = add_note(http, number, str(uuid5(NAMESPACE_OID, str(number))))
        except httpx.HTTPStatusError as error:
            assert error.response.status_code in (502, 503, 504), error.response.text
            self.refused[str(error.response.status_code)] += 1
        except httpx.TransportError as error:  # cut off: the client does not know whether it was accepted
            self.refused[type(error).__name__] += 1
        with self._changed:
            self.tries += 1
            self._changed.notify_all()
        return number in self.jobs

    def wait_for_tries(self, count: int, seconds: float) -> None:
        """Wait until so many tries have ended since the start, or for so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.tries >= count, seconds)


@pytest.mark.long
def test_kill_of_any_component_during_200_adds_loses_nothing_and_adds_nothing_twice(tmp_path: Path) -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(MISSING)
    victims = [COMPONENTS[number % len(COMPONENTS)] for number in range(ROUNDS)]
    random.Random(25).shuffle(victims)
    with run_postgres(binaries, **DURABLE) as postgres, run_deployment(tmp_path, postgres) as deployment:
        clients = Clients(deployment)
        for number, victim in enumerate(victims):
            add_during_kill(deployment, postgres, clients, victim, number)
            print(
                f"round {number}: {victim} killed, {clients.tries} tries, refused {dict(clients.refused)}", flush=True
            )
        assert sorted(clients.jobs) == [*range(ROUNDS * ADDS_PER_ROUND)]
        require_each_once(deployment, clients)


def add_during_kill(
    deployment: Deployment, postgres: PostgresServer, clients: Clients, victim: str, round_number: int
) -> None:
    before = clients.tries
    numbers = range(round_number * ADDS_PER_ROUND, (round_number + 1) * ADDS_PER_ROUND)
    with ThreadPoolExecutor(CLIENTS) as pool:
        added = [pool.submit(clients.add, number) for number in numbers]
        clients.wait_for_tries(before + TRIES_BEFORE_KILL, CLIENT_SECONDS)
        postgres.kill() if victim == "postgres" else deployment.kill(victim)
        clients.wait_for_tries(clients.tries + TRIES_WHILE_AWAY, AWAY_SECONDS)
        postgres.start() if victim == "postgres" else deployment.start_again(victim)
        for future in added:
            future.result()
    wait_until(lambda: all(map(deployment.is_healthy, (*SERVERS, "s3", "balancer"))), START_SECONDS)


def require_each_once(deployment: Deployment, clients: Clients) -> None:
    """Every note is one job, one document, one original, and one hit of each server; nothing is damaged."""
    assert len(set(clients.jobs.values())) == len(clients.jobs)
    titles = sorted(f"Note {number}" for number in clients.jobs)
    for name in ("server-a", "server-b"):
        base_url = f"http://127.0.0.1:{deployment.ports[name]}"
        with httpx.Client(base_url=base_url, headers=make_headers(), timeout=120) as http:
            for job in clients.jobs.values():
                wait_until(lambda job=job: read_status(http, job) == "completed", START_SECONDS)  # type: ignore[misc]
            assert sorted(list_titles(http)) == titles
            for number in clients.jobs:
                assert find_titles(http, make_word(number)) == [f"Note {number}"]
            assert http.post("/api/v1/verify").json()["findings"] == []
    listed = deployment.make_s3_client().list_objects_v2(Bucket="originals", Prefix="knowledge/")
    originals = [entry["Key"] for entry in listed["Contents"] if ORIGINAL_KEY.fullmatch(entry["Key"])]
    assert len(originals) == len(clients.jobs)


def read_status(http: httpx.Client, job: int) -> str:
    status = http.get(f"/api/v1/jobs/{job}").json()["status"]
    assert status in ("queued", "processing", "completed"), (job, status)
    return str(status)


def list_titles(http: httpx.Client) -> list[str]:
    titles: list[str] = []
    while True:
        answer = http.get("/api/v1/documents", params={"offset": len(titles)})
        answer.raise_for_status()
        if not (listed := answer.json()["documents"]):
            return titles
        titles += [document["title"] for document in listed]


def make_headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {KEYS['KB_API_KEY']}"}
