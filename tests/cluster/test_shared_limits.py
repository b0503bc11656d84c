"""Rate limits and uploads in parts hold across the servers of a database."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from knowledge.config import read_settings
from knowledge.errors import InvalidParameter, NotNow, StorageFailed, UploadNotFound
from knowledge.store.cluster.rate_limits import DatabaseRateLimitStorage
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.surfaces.http.rate_limits import RateLimits
from knowledge.toolsets.shared_uploads import SharedUploads
from knowledge.toolsets.staged_uploads import UploadDetails, UploadLimits

OWNER, STRANGER = (3, "the key of Alice"), (3, "another key")


@pytest.fixture
def url(shared_url: str) -> str:
    PostgresDatabase(shared_url).close()
    return shared_url


@pytest.fixture
def storages(url: str) -> Iterator[tuple[DatabaseRateLimitStorage, DatabaseRateLimitStorage]]:
    first, second = DatabaseRateLimitStorage(url), DatabaseRateLimitStorage(url)
    yield first, second
    first.close()
    second.close()


Storages = tuple[DatabaseRateLimitStorage, DatabaseRateLimitStorage]


def test_a_limit_counts_the_calls_of_all_servers(storages: Storages) -> None:
    first, second = storages
    assert [(first, second)[number % 2].acquire_entry("a", 4, 60) for number in range(6)] == [True] * 4 + [False] * 2
    assert first.get_moving_window("a", 4, 60)[1] == 4
    assert second.acquire_entry("b", 4, 60), "another key has its own window"


def test_calls_at_the_same_moment_do_not_exceed_a_limit(storages: Storages) -> None:
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda number: storages[number % 2].acquire_entry("a", 10, 60), range(40)))
    assert sum(taken) == 10


def test_a_high_limit_counts_in_slices_and_is_as_strict(storages: Storages) -> None:
    first, second = storages
    assert first.acquire_entry("a", 1000, 3600, 990)
    assert second.acquire_entry("a", 1000, 3600, 10)
    assert not first.acquire_entry("a", 1000, 3600)
    assert second.get_moving_window("a", 1000, 3600)[1] == 1000


def test_calls_leave_the_window_and_the_table(storages: Storages, url: str) -> None:
    first, _ = storages
    first.acquire_entry("a", 1, 60)
    database = PostgresDatabase(url)
    database.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE rate_limit_entries SET at = at - 61000000, ends = ends - 61000000"
        )
    )
    assert first.acquire_entry("a", 1, 60)
    first._calls_until_sweep = 1
    first.acquire_entry("b", 1, 60)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM rate_limit_entries").scalar() == 2
    database.close()


def test_a_database_that_is_away_is_a_storage_error() -> None:
    away = DatabaseRateLimitStorage("postgresql+psycopg://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(StorageFailed, match="cannot be reached") as caught:
        away.acquire_entry("a", 1, 60)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("storage", ["memory", "file"])
def test_a_storage_that_counts_on_one_server_alone_is_refused_with_a_sentence(storage: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="counts on one server alone; with KNOWLEDGE_DATABASE_URL use database"):
        read_settings(data=tmp_path, database_url="postgresql+psycopg://a@b/c", rate_limit_storage=storage)


def test_the_database_is_the_default_storage_of_several_servers_and_refused_without_one(tmp_path: Path) -> None:
    settings = read_settings(data=tmp_path, database_url="postgresql+psycopg://a@b/c")
    assert settings.counter_storage == "database"
    assert isinstance(RateLimits.from_settings(settings)._storage, DatabaseRateLimitStorage)
    assert read_settings(data=tmp_path).counter_storage == "memory"
    with pytest.raises(InvalidParameter, match="needs KNOWLEDGE_DATABASE_URL"):
        read_settings(data=tmp_path, rate_limit_storage="database")


@pytest.mark.parametrize("role", ["no-workers", "workers-only"])
def test_a_role_needs_a_database_that_servers_share(role: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=f"The role {role} needs KNOWLEDGE_DATABASE_URL"):
        read_settings(data=tmp_path, server_role=role)


# -- uploads in parts ---------------------------------------------------------------------------


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def encode(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


def make_details(size: int = 10) -> UploadDetails:
    return UploadDetails(filename="a.txt", total_size=size, collection="documents", tags=("blue",))


def open_two(folder: Path, clock: Clock, **limits: int) -> tuple[SharedUploads, SharedUploads]:
    given = UploadLimits(folder=folder, ttl_s=600, **limits)
    return SharedUploads(given, clock), SharedUploads(given, clock)


async def test_an_upload_is_started_filled_and_finished_on_different_servers(tmp_path: Path) -> None:
    first, second = open_two(tmp_path, Clock())
    started = await first.start(OWNER, make_details(6))
    uid = str(started.uid)
    await second.store_part(await second.find(OWNER, uid), 1, encode(b"def"))
    with pytest.raises(NotNow, match="Part 0 is missing"):
        async with first.open_content(await first.find(OWNER, uid)):
            pass
    await first.store_part(await first.find(OWNER, uid), 0, encode(b"abc"))
    upload = await second.find(OWNER, uid)
    assert (upload.job_uid, upload.details) == (started.job_uid, started.details)
    async with second.open_content(upload) as content:
        assert content is not None
        assert b"".join([piece async for piece in content.pieces]) == b"abcdef"
        await second.mark_finished(upload, {"job_id": 7})
    again = await first.find(OWNER, uid)
    assert again.answer == {"job_id": 7}
    async with first.open_content(again) as content:
        assert content is None
    assert list(tmp_path.rglob("*.part")) == []


async def test_an_upload_does_not_exist_for_other_callers_and_no_key_is_written(tmp_path: Path) -> None:
    first, second = open_two(tmp_path, Clock())
    upload = await first.start(OWNER, make_details())
    for stranger in (STRANGER, (4, "the key of Alice"), (0, None)):
        with pytest.raises(UploadNotFound):
            await second.find(stranger, str(upload.uid))
    assert all("Alice" not in path.read_text() for path in tmp_path.rglob("*.json"))


@pytest.mark.parametrize("uid", ["", "../../etc", "0" * 32, "nonsense"])
async def test_an_upload_that_was_never_started_is_not_found(uid: str, tmp_path: Path) -> None:
    first, _ = open_two(tmp_path, Clock())
    with pytest.raises(UploadNotFound):
        await first.find(OWNER, uid)


async def test_the_space_of_all_servers_is_bounded(tmp_path: Path) -> None:
    first, second = open_two(tmp_path, Clock(), max_file_bytes=10, total_bytes=10)
    await first.start(OWNER, make_details(8))
    with pytest.raises(NotNow, match="8 of 10 bytes"):
        await second.start(OWNER, make_details(8))


async def test_expired_uploads_of_any_server_are_removed(tmp_path: Path) -> None:
    clock = Clock()
    first, second = open_two(tmp_path, clock)
    upload = await first.start(OWNER, make_details())
    await first.store_part(await first.find(OWNER, str(upload.uid)), 0, encode(b"abc"))
    (tmp_path / UUID(int=5).hex).mkdir()  # of a server that was killed before it wrote the state
    os.utime(tmp_path / UUID(int=5).hex, (clock.now, clock.now))
    clock.now += 601
    with pytest.raises(UploadNotFound):
        await second.find(OWNER, str(upload.uid))
    await second.remove_expired()
    assert list(tmp_path.iterdir()) == []
