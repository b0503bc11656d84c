"""Several processes on one data folder: one is the engine, the others use it, and one of them follows it."""

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
from knowledge.engine.sharing import engine_file as cards
from knowledge.engine.sharing.engine import make_shared_engine
from knowledge.engine.sharing.leader import LeaderElection
from knowledge.errors import InvalidKey, NotNow, StorageFailed
from knowledge.model import DocumentFilter, JobStatus, NewCollection, NewNote, Query, SearchMode
from tests.support.accounts import register
from tests.support.engines import add_note, search_ids

HOLDER = Path(__file__).with_name("engine_process.py")


def seat_of(data: Path) -> LeaderElection:
    """A seat that may only be a guest: to become the engine fails the test."""

    @asynccontextmanager
    async def never() -> AsyncIterator[EngineHost]:
        raise AssertionError("this process should have found the other one")
        yield  # pragma: no cover

    return LeaderElection(data, never)


def seat_in_process(data: Path, opened: list[LocalEngine]) -> LeaderElection:
    """A seat whose process becomes the engine without serving it to others."""

    @asynccontextmanager
    async def become() -> AsyncIterator[EngineHost]:
        from knowledge.config import Settings
        from knowledge.testing import make_test_engine

        engine = make_test_engine(Settings(data=data, workers=1))
        engine.start()
        opened.append(engine)
        try:
            yield engine
        finally:
            await asyncio.to_thread(engine.close)

    return LeaderElection(data, become)


@asynccontextmanager
async def holder(data: Path) -> AsyncIterator[subprocess.Popen[str]]:
    """Another process that holds the folder and serves it."""
    with subprocess.Popen([sys.executable, str(HOLDER), str(data)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert (await asyncio.to_thread(process.stdout.readline)).strip() == "holding"
        try:
            yield process
        finally:
            process.kill()


async def test_a_second_process_uses_the_first(tmp_path: Path) -> None:
    async with holder(tmp_path / "data"):
        seat = seat_of(tmp_path / "data")
        engine = make_shared_engine(seat)
        note = await add_note(engine, "kept by another process")
        assert await search_ids(engine, "another process") == [note.id]
        assert not seat.is_leader
        await seat.close()


async def test_a_guest_takes_over_when_the_holder_is_killed(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    seat = seat_in_process(tmp_path / "data", opened)
    async with holder(tmp_path / "data") as process:
        engine = make_shared_engine(seat)
        note = await add_note(engine, "it will outlive its engine")
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        assert await search_ids(engine, "outlive") == [note.id]
        assert seat.is_leader and len(opened) == 1
        again = await add_note(engine, "kept by the next engine")
        assert again.id != note.id
        assert await engine.verify() == []
    await seat.close()


async def test_a_guest_passes_an_accounts_key_on_and_whoever_is_the_engine_judges_it(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    seat = seat_in_process(tmp_path / "data", opened)
    async with holder(tmp_path / "data") as process:
        engine = make_shared_engine(seat)
        ada, bob = await register(engine, "ada"), await register(engine, "bob")
        note = await add_note(ada, "a secret garden")
        for somebody in (bob, engine):
            assert await search_ids(somebody, "garden") == []
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        assert await search_ids(ada, "garden") == [note.id]
        assert await search_ids(bob, "garden") == []
        assert seat.is_leader
        await engine.accounts.disable("ada")
        with pytest.raises(InvalidKey):
            await ada.status()
    await seat.close()


async def test_the_card_is_for_its_owner_alone_and_goes_with_the_holder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with holder(data) as process:
        path = data / cards.ENGINE_FILE_NAME
        if os.name == "posix":
            assert path.stat().st_mode & 0o777 == 0o600
        card = cards.read_engine_file(data)
        assert card is not None and card.pid == process.pid
        stranger = RemoteEngine(open_http_client(card.url, "a wrong key"))
        with pytest.raises(Exception, match="key is wrong"):
            await stranger.status()
        await stranger.close()
        process.terminate()
        await asyncio.to_thread(process.wait)
        assert not path.exists()


def a_card(**other: object) -> str:
    card = {"url": "http://127.0.0.1:1", "token": "x", "pid": 1, "product": cards.PRODUCT, "version": "0", "wire": 1}
    return json.dumps({**card, **other})


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", '{"url": "http://127.0.0.1:1"}'),
        *(a_card(), a_card(pid=os.getpid()), a_card(url="http://evil.example"), a_card(product="?")),
    ],
    ids=["empty", "broken", "a list", "half", "a dead holder", "a number in use", "another host", "another product"],
)
async def test_an_old_or_forged_card_is_no_obstacle(tmp_path: Path, content: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / cards.ENGINE_FILE_NAME).write_text(content)
    opened: list[LocalEngine] = []
    seat = seat_in_process(data, opened)
    assert (await add_note(make_shared_engine(seat), "in spite of the card")).id == 1
    assert len(opened) == 1
    await seat.close()


async def test_a_port_that_somebody_else_has_now_is_not_taken_for_the_engine(tmp_path: Path) -> None:
    """The holder died, its number and its port went to others, and who holds the lock now has not yet told."""
    data = tmp_path / "data"

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\nhome")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(page, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        data.mkdir()
        (data / cards.ENGINE_FILE_NAME).write_text(a_card(url=f"http://127.0.0.1:{port}", pid=os.getpid()))
        guest = seat_of(data)
        with FileLock(data / "engine.lock"):
            asking = asyncio.create_task(guest.get_engine())
            done, _ = await asyncio.wait({asking}, timeout=0.3)
            assert not done, "it took the stranger for the engine"
            async with holder_beside(data):
                assert (await (await asking).status()).documents == 0
        await guest.close()


@asynccontextmanager
async def holder_beside(data: Path) -> AsyncIterator[None]:
    """Whoever holds the lock tells at last where the engine is."""
    from knowledge.config import Settings
    from knowledge.testing import make_test_engine
    from tests.support.command_line import serve_engine

    engine = make_test_engine(Settings(data=data, workers=1))
    engine.start()
    try:
        with serve_engine(engine, Settings(data=data)) as address:
            cards.write_engine_file(data, cards.EngineFile.for_this_process(address, "any"))
            yield
    finally:
        await asyncio.to_thread(engine.close)


async def test_another_version_is_a_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with holder(data):
        card = json.loads((data / cards.ENGINE_FILE_NAME).read_text())
        (data / cards.ENGINE_FILE_NAME).write_text(json.dumps({**card, "wire": 99, "version": "9.9"}))
        seat = seat_of(data)
        with pytest.raises(NotNow, match=r"Version 9\.9"):
            await seat.get_engine()
        await seat.close()


async def test_many_that_start_at_once_find_one_engine(tmp_path: Path) -> None:
    """Processes, not threads: the lock is the operating system's."""
    data = tmp_path / "data"
    command = [sys.executable, str(HOLDER), str(data), "note"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        out, _ = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0 and out.strip().endswith("kept")
    opened: list[LocalEngine] = []
    seat = seat_in_process(data, opened)
    assert (await make_shared_engine(seat).documents(DocumentFilter())).total == 3
    assert await make_shared_engine(seat).verify() == []
    await seat.close()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_without_the_right_to_write_is_a_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o500)
    seat = seat_in_process(data, [])
    with pytest.raises(StorageFailed, match="cannot be used"):
        await seat.get_engine()


async def test_a_file_where_the_folder_should_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("not a folder")
    with pytest.raises(StorageFailed, match="cannot be used"):
        seat_in_process(tmp_path / "data", [])


async def test_asking_twice_makes_one_collection(local: LocalEngine) -> None:
    new = NewCollection(title="Once")
    first = await local.create_collection(new)
    assert await local.create_collection(new) == first


async def test_five_processes_write_and_search_while_the_holder_is_killed(tmp_path: Path) -> None:
    """Whoever was told "kept" finds it, whichever process was the engine then; to none of them was a call refused."""
    data = tmp_path / "data"
    command = [sys.executable, str(HOLDER), str(data), "write"]
    processes = [subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(5)]
    kept: list[str] = []
    longest = 0.0
    midst = asyncio.Event()

    async def listen_to(process: subprocess.Popen[str]) -> None:
        nonlocal longest
        assert process.stdout is not None
        last = None
        while line := await asyncio.to_thread(process.stdout.readline):
            now = time.monotonic()
            longest = max(longest, now - last if last else 0.0)
            last = now
            kept.append(line.split()[1])
            if len(kept) >= 5:
                midst.set()
        process.stdout.close()
        await asyncio.to_thread(process.wait)

    listening = [asyncio.create_task(listen_to(process)) for process in processes]
    async with asyncio.timeout(60):
        await midst.wait()
    holder_pid = await the_holder(data)
    os.kill(holder_pid, signal.SIGKILL)
    await asyncio.gather(*listening)
    print(f"longest from one note to the next, over a takeover: {longest:.1f} s")
    assert [process.returncode for process in processes if process.pid != holder_pid] == [0] * 4
    opened: list[LocalEngine] = []
    seat = seat_in_process(data, opened)
    engine = make_shared_engine(seat)
    for word in kept:
        answer = await engine.search(Query(text=word, mode=SearchMode.TEXT))
        assert any(word in hit.chunk.text for hit in answer.hits), word
    assert len(kept) >= 4 * 8
    assert await engine.verify() == []
    await seat.close()


async def the_holder(data: Path) -> int:
    """The process that tells where it is, once one does."""
    async with asyncio.timeout(60):
        while (card := await asyncio.to_thread(cards.read_engine_file, data)) is None:
            await asyncio.sleep(0.02)
    return card.pid


async def test_a_job_goes_on_under_the_next_engine(tmp_path: Path) -> None:
    opened: list[LocalEngine] = []
    seat = seat_in_process(tmp_path / "data", opened)
    async with holder(tmp_path / "data") as process:
        engine = make_shared_engine(seat)
        job = await engine.add(NewNote(text="\n\n".join(f"Paragraph {number} of many." for number in range(3000))))
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait)
        ended = await engine.wait(job.uid, 120)
        assert ended.status is JobStatus.COMPLETED
    await seat.close()
