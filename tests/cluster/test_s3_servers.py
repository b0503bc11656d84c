"""Server processes with their originals in a real S3 bucket: uploads in parts, S3 away under load, and kill -9."""

from __future__ import annotations

import base64
import random
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import httpx
import pytest

from tests.cluster.server_pair import add_note, check_ready, find_titles, make_word, read_statuses, run_member, verify
from tests.cluster.test_two_servers import McpSession, Pair, wait_for_jobs
from tests.support.postgres import MISSING, PostgresServer, find_binaries, run_postgres
from tests.support.s3 import MISSING as S3_MISSING
from tests.support.s3 import S3Server, find_program, run_s3
from tests.support.server_process import ServerProcess, wait_until
from tests.support.tcp_proxy import TcpProxy, run_proxy

LIMIT_SECONDS = 120.0
ROUNDS, ADDS_PER_ROUND = 20, 10


def make_environment(s3: S3Server, port: int = 0) -> dict[str, str]:
    endpoint = f"http://127.0.0.1:{port or s3.port}"
    url = s3.make_url(f"servers-{secrets.token_hex(6)}", endpoint=endpoint)
    return {"KNOWLEDGE_ORIGINALS_URL": url, **s3.make_environment()}


@pytest.fixture(scope="module")
def proxy(s3: S3Server) -> Iterator[TcpProxy]:
    with run_proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def pair(
    postgres: PostgresServer, s3: S3Server, proxy: TcpProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Two servers whose data folders share nothing."""
    folder = tmp_path_factory.mktemp("pair")
    environment = make_environment(s3, proxy.port)
    with (
        postgres.database() as url,
        run_member(folder, url, "a", **environment) as first,
        run_member(folder, url, "b", **environment) as second,
    ):
        yield first, second


def test_an_upload_in_parts_is_finished_on_another_server(pair: Pair) -> None:
    first, second = pair
    session = McpSession(first)
    content = f"The {make_word(900)} came in parts.".encode()
    upload = session.call(first, "kb_upload_start", filename="parts.txt", total_size=len(content))["upload_id"]
    for index, part in enumerate((content[:10], content[10:])):
        data = base64.b64encode(part).decode()
        session.call((second, first)[index], "kb_upload_chunk", upload_id=upload, data=data, chunk_index=index)
    job = session.call(second, "kb_upload_finish", upload_id=upload)["job_id"]
    assert session.call(first, "kb_upload_finish", upload_id=upload)["job_id"] == job
    ended = first.wait_for_job(job)
    assert ended["status"] == "completed"
    assert second.http.get(f"/documents/{ended['document_id']}/file").content == content


def test_s3_goes_away_and_comes_back_during_adds_and_searches(pair: Pair, proxy: TcpProxy) -> None:
    first, second = pair
    jobs: list[int] = []
    refused = 0
    for number in range(30):
        if number == 10:
            proxy.go_away()
        if number == 20:
            proxy.come_back()
        try:
            jobs.append(add_note(pair[number % 2], f"The {make_word(number)} swims at dawn.", f"Away {number}"))
        except httpx.HTTPStatusError as error:
            assert error.response.status_code == 503
            assert "cannot be reached" in error.response.text or "cannot be used" in error.response.text
            refused += 1
        assert second.http.post("/search", json={"query": "dawn", "fts_only": True}).status_code == 200
        assert check_ready(first)
    assert refused == 10
    assert set(wait_for_jobs(first, jobs).values()) == {"completed"}
    assert verify(first) == verify(second) == []


@pytest.mark.long
def test_kill_of_any_component_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    """Each round kills a server, PostgreSQL or S3 with SIGKILL during ten adds, and starts it again."""
    binaries, program = find_binaries(), find_program()
    if binaries is None or program is None:
        pytest.skip(MISSING if binaries is None else S3_MISSING)
    choose = random.Random(25)
    accepted: dict[int, int] = {}
    durable = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with run_postgres(binaries, **durable) as postgres, run_s3(program) as s3, postgres.database() as url:
        environment = make_environment(s3)
        with ExitStack() as stack:
            members = [Member(tmp_path, url, name, environment, stack) for name in ("a", "b")]
            for number in range(ROUNDS):
                victim = choose.choice(["a", "b", "postgres", "s3"])
                add_during_kill(members, number, accepted, partial(kill, victim, members, postgres, s3))
                wait_until(lambda: all(check_ready(member.server) for member in members), LIMIT_SECONDS)
                repeat_refused(members, number, accepted)
            server = members[0].server
            assert len(accepted) == ROUNDS * ADDS_PER_ROUND
            wait_until(lambda: set(read_statuses(server, [*accepted]).values()) <= {"completed"}, 3 * LIMIT_SECONDS)
            for member in members:
                assert verify(member.server) == []
                for number in accepted.values():
                    assert find_titles(member.server, make_word(number)) == [f"Note {number}"]


class Member:
    """A server that can be killed and started again with its data folder."""

    def __init__(self, folder: Path, url: str, name: str, environment: dict[str, str], stack: ExitStack) -> None:
        self.name = name
        self._start = partial(run_member, folder, url, name, **environment)
        self._stack = stack
        self.server: ServerProcess
        self.start()

    def start(self) -> None:
        self.server = self._stack.enter_context(self._start())

    def kill(self) -> None:
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait(30)


def kill(victim: str, members: list[Member], postgres: PostgresServer, s3: S3Server) -> None:
    """Kill a component and start it again."""
    match victim:
        case "postgres":
            postgres.stop(signal.SIGQUIT)  # PostgreSQL ends at once and recovers, as after a crash
            postgres.start()
        case "s3":
            s3.stop(signal.SIGKILL)
            s3.start()
        case name:
            [member] = [member for member in members if member.name == name]
            member.kill()
            member.start()


def add_during_kill(
    members: list[Member], round_number: int, accepted: dict[int, int], run_kill: Callable[[], None]
) -> None:
    killer = threading.Thread(target=run_kill)
    for number in range(round_number * ADDS_PER_ROUND, (round_number + 1) * ADDS_PER_ROUND):
        if number % ADDS_PER_ROUND == 3:
            killer.start()
        with suppress(httpx.HTTPError):  # refused, or cut off: the client was not told that it was accepted
            add_numbered(members, number, accepted)
    killer.join(LIMIT_SECONDS)
    assert not killer.is_alive()


def add_numbered(members: list[Member], number: int, accepted: dict[int, int]) -> None:
    text, uid = f"The {make_word(number)} swims at dawn.", str(uuid5(NAMESPACE_OID, str(number)))
    accepted[add_note(members[number % 2].server, text, f"Note {number}", uid)] = number


def repeat_refused(members: list[Member], round_number: int, accepted: dict[int, int]) -> None:
    """Add again what was refused or cut off in a round; its uid makes it one job."""
    for number in range(round_number * ADDS_PER_ROUND, (round_number + 1) * ADDS_PER_ROUND):
        if number not in accepted.values():
            add_numbered(members, number, accepted)
