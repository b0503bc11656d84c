"""Several processes share one data folder: one is the leader, and another takes over when it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from knowledge.engine.local import LocalEngine
from knowledge.engine.proxy import EngineHost
from knowledge.engine.remote.engine import RemoteEngine
from knowledge.engine.remote.http import open_http_client
from knowledge.engine.sharing import engine_file
from knowledge.engine.sharing.engine import make_shared_engine
from knowledge.engine.sharing.leader import LeaderElection
from knowledge.errors import InvalidKey, NotNow, StorageFailed
from knowledge.model import DocumentFilter, JobStatus, NewCollection, NewNote, Query, SearchMode
from tests.support.accounts import register
from tests.support.engines import add_note, search_ids

ENGINE_PROCESS = Path(__file__).with_name("engine_process.py")


def make_follower(data: Path) -> LeaderElection:
    """Return an election that fails the test if it becomes the leader."""

    @asynccontextmanager
    async def refuse_to_lead() -> AsyncIterator[EngineHost]:
        raise AssertionError("this process should have found the other one")
        yield  # pragma: no cover

    return LeaderElection(data, refuse_to_lead)


def make_election(data: Path, opened: list[LocalEngine]) -> LeaderElection:
    """Return an election whose leader runs in this process and serves no others; `opened` collects its engines."""

    @asynccontextmanager
    async def lead() -> AsyncIterator[EngineHost]:
        from knowledge.config import Settings
        from knowledge.testing import make_test_engine

        engine = make_test_engine(Settings(data=data, workers=1))
        engine.start()
        opened.append(engine)
        try:
            yield engine
        finally:
            await asyncio.to_thread(engine.close)

    return LeaderElection(data, lead)


@asynccontextmanager
async def run_leader(data: Path) -> AsyncIterator[subprocess.Popen[str]]:
    """Run a process that is the leader of the data folder."""
    with subprocess.Popen(
        [sys.executable, str(ENGINE_PROCESS), str(data)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert (await asyncio.to_thread(process.stdout.readline)).strip() == "holding"
        try:
            yield process
        finally:
            process.kill()


async def test_a_second_process_uses_the_first(tmp_path: Path) -> None:
    async with run_leader(tmp_path / "data"):
        election = make_follower(tmp_path / "data")
        engine = make_shared_engine(election)
        note = await add_note(engine, "added by another process")
        assert await search_ids(engine, "another process") == [note.id]
        assert not election.is_leader
        await election.close()


async def test_a_follower_takes_over_when_the_leader_is_killed(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    election = make_election(tmp_path / "data", opened)
    async with run_leader(tmp_path / "data") as process:
        engine = make_shared_engine(election)
        note = await add_note(engine, "it will outlive its engine")
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        assert await search_ids(engine, "outlive") == [note.id]
        assert election.is_leader and len(opened) == 1
        again = await add_note(engine, "added by the next engine")
        assert again.id != note.id
        assert await engine.verify() == []
    await election.close()


async def test_a_follower_forwards_the_key_of_an_account_and_the_leader_authenticates_it(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    election = make_election(tmp_path / "data", opened)
    async with run_leader(tmp_path / "data") as process:
        engine = make_shared_engine(election)
        ada, bob = await register(engine, "ada"), await register(engine, "bob")
        note = await add_note(ada, "a secret garden")
        for somebody in (bob, engine):
            assert await search_ids(somebody, "garden") == []
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        assert await search_ids(ada, "garden") == [note.id]
        assert await search_ids(bob, "garden") == []
        assert election.is_leader
        await engine.accounts.disable("ada")
        with pytest.raises(InvalidKey):
            await ada.status()
    await election.close()


async def test_the_engine_file_is_private_and_removed_with_its_leader(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with run_leader(data) as process:
        path = data / engine_file.ENGINE_FILE_NAME
        if os.name == "posix":
            assert path.stat().st_mode & 0o777 == 0o600
        advertised = engine_file.read_engine_file(data)
        assert advertised is not None and advertised.pid == process.pid
        stranger = RemoteEngine(open_http_client(advertised.url, "a wrong key"))
        with pytest.raises(InvalidKey, match="key is not valid"):
            await stranger.status()
        await stranger.close()
        process.terminate()
        await asyncio.to_thread(process.wait)
        assert not path.exists()


def make_engine_file(**other: object) -> str:
    advertised = {
        "url": "http://127.0.0.1:1",
        "token": "x",
        "pid": 1,
        "product": engine_file.PRODUCT,
        "version": "0",
        "wire": 1,
    }
    return json.dumps({**advertised, **other})


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"url": "http://127.0.0.1:1"}'),
        *(
            make_engine_file(),
            make_engine_file(pid=os.getpid()),
            make_engine_file(url="http://evil.example"),
            make_engine_file(product="?"),
        ),
    ],
    ids=["empty", "broken", "a list", "half", "a dead leader", "a pid in use", "another host", "another product"],
)
async def test_a_stale_or_forged_engine_file_is_ignored(tmp_path: Path, content: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / engine_file.ENGINE_FILE_NAME).write_text(content)
    opened: list[LocalEngine] = []
    election = make_election(data, opened)
    assert (await add_note(make_shared_engine(election), "in spite of the file")).id == 1
    assert len(opened) == 1
    await election.close()


async def test_a_port_that_another_program_uses_now_is_not_taken_for_the_engine(tmp_path: Path) -> None:
    """The leader died, its pid and port were reused, and the next leader has not written its engine file yet."""
    data = tmp_path / "data"

    async def serve_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\nhome")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve_page, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        data.mkdir()
        (data / engine_file.ENGINE_FILE_NAME).write_text(
            make_engine_file(url=f"http://127.0.0.1:{port}", pid=os.getpid())
        )
        follower = make_follower(data)
        with FileLock(data / "engine.lock"):
            asking = asyncio.create_task(follower.get_engine())
            done, _ = await asyncio.wait({asking}, timeout=0.3)
            assert not done, "the other program was taken for the engine"
            async with serve_late_leader(data):
                assert (await (await asking).status()).documents == 0
        await follower.close()


@asynccontextmanager
async def serve_late_leader(data: Path) -> AsyncIterator[None]:
    """Serve an engine and write its engine file."""
    from knowledge.config import Settings
    from knowledge.testing import make_test_engine
    from tests.support.command_line import serve_engine

    engine = make_test_engine(Settings(data=data, workers=1))
    engine.start()
    try:
        with serve_engine(engine, Settings(data=data)) as address:
            engine_file.write_engine_file(data, engine_file.EngineFile.for_this_process(address, "any"))
            yield
    finally:
        await asyncio.to_thread(engine.close)


async def test_a_leader_of_another_version_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with run_leader(data):
        advertised = json.loads((data / engine_file.ENGINE_FILE_NAME).read_text())
        (data / engine_file.ENGINE_FILE_NAME).write_text(json.dumps({**advertised, "wire": 99, "version": "9.9"}))
        election = make_follower(data)
        with pytest.raises(NotNow, match=r"Version 9\.9"):
            await election.get_engine()
        await election.close()


async def test_processes_that_start_at_the_same_time_share_one_engine(tmp_path: Path) -> None:
    """Processes, not threads, because the lock belongs to the operating system."""
    data = tmp_path / "data"
    command = [sys.executable, str(ENGINE_PROCESS), str(data), "note"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        out, _ = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0 and out.strip().endswith("added")
    opened: list[LocalEngine] = []
    election = make_election(data, opened)
    assert (await make_shared_engine(election).documents(DocumentFilter())).total == 3
    assert await make_shared_engine(election).verify() == []
    await election.close()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_without_write_permission_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    election = make_election(data, [])
    with pytest.raises(StorageFailed, match="cannot be used"):
        await election.get_engine()


async def test_a_file_in_place_of_the_data_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(StorageFailed, match="cannot be used"):
        make_election(tmp_path / "data", [])


async def test_creating_a_collection_twice_makes_one(local: LocalEngine) -> None:
    new = NewCollection(title="Once")
    first = await local.create_collection(new)
    assert await local.create_collection(new) == first


async def test_five_processes_write_and_search_while_the_leader_is_killed(tmp_path: Path) -> None:
    """Every note that a process reported as added is found, and no call fails."""
    data = tmp_path / "data"
    command = [sys.executable, str(ENGINE_PROCESS), str(data), "write"]
    processes = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(5)]
    added: list[str] = []
    longest_gap_seconds = 0.0
    halfway = asyncio.Event()

    async def listen_to(process: subprocess.Popen[str]) -> None:
        nonlocal longest_gap_seconds
        assert process.stdout is not None
        last = None
        while line := await asyncio.to_thread(process.stdout.readline):
            now = time.monotonic()
            longest_gap_seconds = max(longest_gap_seconds, now - last if last else 0.0)
            last = now
            added.append(line.split()[1])
            if len(added) >= 5:
                halfway.set()
        process.stdout.close()
        await asyncio.to_thread(process.wait)

    listening = [asyncio.create_task(listen_to(process)) for process in processes]
    async with asyncio.timeout(60):
        await halfway.wait()
    leader_pid = await wait_for_leader(data)
    os.kill(leader_pid, signal.SIGKILL)
    await asyncio.gather(*listening)
    print(f"longest time between two notes of a process, with a takeover: {longest_gap_seconds:.1f} s")
    assert [process.returncode for process in processes if process.pid != leader_pid] == [0] * 4
    opened: list[LocalEngine] = []
    election = make_election(data, opened)
    engine = make_shared_engine(election)
    for word in added:
        answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
        assert any(word in hit.chunk.text for hit in answer.hits), word
    assert len(added) >= 4 * 8
    assert await engine.verify() == []
    await election.close()


async def wait_for_leader(data: Path) -> int:
    """Wait for an engine file and return the pid in it."""
    async with asyncio.timeout(60):
        while (advertised := await asyncio.to_thread(engine_file.read_engine_file, data)) is None:
            await asyncio.sleep(0.02)
    return advertised.pid


async def test_a_job_continues_under_the_next_leader(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    election = make_election(tmp_path / "data", opened)
    async with run_leader(tmp_path / "data") as process:
        engine = make_shared_engine(election)
        job = await engine.add(NewNote(text="\n\n".join(f"Paragraph {number} of many." for number in range(3000))))
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        ended = await engine.wait(job.uid, 120)
        assert ended.status is JobStatus.COMPLETED
    await election.close()
