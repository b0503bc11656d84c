"""Originals in a real S3 bucket: stored, read, away, slow, refused, and deleted a day after they were last needed."""

from __future__ import annotations

import asyncio
import hashlib
import io
import secrets
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from knowledge.blobs.s3.bucket import Bucket
from knowledge.blobs.s3.bucket_url import parse_bucket_url
from knowledge.blobs.s3.originals import S3Blobs, make_key
from knowledge.engine.local import LocalEngine
from knowledge.errors import KnowledgeError, OriginalsRefused, OriginalsUnavailable, StorageFailed
from knowledge.model import Content, JobStatus, NewFile, NewNote, Query
from tests.cluster.conftest import OpenMember
from tests.support.s3 import READER, SECRET, STRANGER, WRITER, S3Server
from tests.support.tcp_proxy import TcpProxy, run_proxy

DAY_SECONDS = 24 * 3600


@pytest.fixture
def log_in(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the credentials of a user of the S3 server."""

    def set_user(user: str) -> None:
        for name, value in s3.make_environment(user).items():
            monkeypatch.setenv(name, value)

    set_user(WRITER)
    return set_user


@pytest.fixture
def prefix() -> str:
    """Each test has its own place in the bucket."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[TcpProxy]:
    with run_proxy(s3.port) as proxy:
        yield proxy


@pytest.fixture
def url(s3: S3Server, prefix: str, proxy: TcpProxy, log_in: Callable[[str], None]) -> str:
    """The URL of the originals, through the proxy."""
    return s3.make_url(prefix, endpoint=f"http://127.0.0.1:{proxy.port}")


def get_blobs(engine: LocalEngine) -> S3Blobs:
    files = engine._parts.files
    assert isinstance(files, S3Blobs)
    return files


def store(engine: LocalEngine, data: bytes, is_referenced: Callable[[str], bool] = lambda _: True) -> str:
    blobs = get_blobs(engine)
    incoming = blobs.open_incoming(1 << 24)
    incoming.write(data)
    with blobs.adopt_incoming(incoming, is_referenced) as received:
        return received.sha256


def make_old(shared_url: str, sha256: str) -> None:
    """Let an original be unreferenced for more than a day."""
    with psycopg.connect(shared_url.replace("+psycopg", "")) as connection:
        done = connection.execute(
            "UPDATE unreferenced_originals SET since = since - %s WHERE sha256 = %s",
            ((DAY_SECONDS + 60) * 1_000_000, sha256),
        )
        assert done.rowcount == 1


def let_objects_expire(engine: LocalEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time for which objects are kept, because the clock of the server cannot be set."""
    monkeypatch.setattr(get_blobs(engine), "_keep_seconds", 0.0)


def test_an_original_is_stored_once_and_read_in_ranges_by_another_server(open_member: OpenMember, url: str) -> None:
    first = open_member("first", start=False, originals_url=url)
    second = open_member("second", start=False, originals_url=url)
    data = secrets.token_bytes(3 << 20)
    sha256 = store(first, data)
    assert sha256 == hashlib.sha256(data).hexdigest() == store(second, data)
    there = get_blobs(second)
    there._copies.forget(sha256)
    assert b"".join(there.read(sha256)) == data
    assert b"".join(there.read(sha256, 100, 2 << 20)) == data[100 : 2 << 20]
    assert b"".join(there.read(sha256, len(data) - 5)) == data[-5:]
    assert b"".join(there.read(sha256, 7, 7)) == b""
    assert there.find_size(sha256) == len(data) and there.find_size("00" * 32) is None
    with there.open_local(sha256) as path:
        assert path.read_bytes() == data
    assert [blob.sha256 for blob in there.iterate()] == [sha256]
    assert list(there._incoming.iterdir()) == []
    with pytest.raises(FileNotFoundError), there.open_local("00" * 32):
        pass


def test_a_read_that_is_cut_off_goes_on_where_it_broke(open_member: OpenMember, url: str, proxy: TcpProxy) -> None:
    engine = open_member("first", start=False, originals_url=url)
    data = secrets.token_bytes(5 << 20)
    sha256 = store(engine, data)
    get_blobs(engine)._copies.forget(sha256)
    before, proxy.cut_after_bytes = proxy.connections, 3 << 20
    assert b"".join(get_blobs(engine).read(sha256)) == data
    assert proxy.cut_after_bytes is None and proxy.connections > before


def test_an_unreferenced_original_is_deleted_a_day_later(
    open_member: OpenMember, url: str, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_member("first", start=False, originals_url=url)
    blobs = get_blobs(engine)
    dropped: list[str] = []
    blobs.on_discard = dropped.append
    sha256 = store(engine, b"no longer needed")
    assert blobs.discard(sha256, lambda _: True) == 0 and dropped == []
    assert blobs.discard(sha256, lambda _: False) == 0 and dropped == [sha256]
    assert blobs.sweep_unreferenced(lambda _: False) == 0  # not yet a day
    make_old(shared_url, sha256)
    assert blobs.sweep_unreferenced(lambda _: False) == 0  # the object itself is not a day old
    let_objects_expire(engine, monkeypatch)
    assert blobs.sweep_unreferenced(lambda _: False) == 1
    assert blobs.find_size(sha256) is None
    assert blobs.sweep_unreferenced(lambda _: False) == 0


def test_a_crash_before_the_commit_leaves_an_object_that_the_sweep_finds(
    open_member: OpenMember, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_member("first", start=False, originals_url=url)
    kept, left = store(engine, b"kept"), store(engine, b"left behind")
    let_objects_expire(engine, monkeypatch)
    assert get_blobs(engine).sweep_unreferenced(lambda sha256: sha256 == kept) == 1
    assert [blob.sha256 for blob in get_blobs(engine).iterate()] == [kept] and left


def test_bytes_that_are_added_again_while_the_sweep_deletes_them_are_there_afterwards(
    open_member: OpenMember, url: str, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeping = open_member("first", start=False, originals_url=url)
    adding = open_member("second", start=False, originals_url=url)
    sha256 = store(sweeping, b"removed and added again")
    get_blobs(sweeping).discard(sha256, lambda _: False)
    let_objects_expire(sweeping, monkeypatch)
    make_old(shared_url, sha256)
    adder = threading.Thread(target=store, args=(adding, b"removed and added again"))

    def is_referenced(_: str) -> bool:
        # The sweep holds the lock of this original: the other server finds the object marked, and waits for the lock.
        if adder.ident is None:
            adder.start()
            adder.join(0.5)
        return False

    monkeypatch.setattr(get_blobs(sweeping), "_mark_strays", lambda _: None)
    assert get_blobs(sweeping).sweep_unreferenced(is_referenced) == 1
    adder.join(60)
    assert get_blobs(adding).find_size(sha256) == len(b"removed and added again")


def test_bytes_that_are_added_again_before_the_sweep_are_kept(
    open_member: OpenMember, url: str, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_member("first", start=False, originals_url=url)
    sha256 = store(engine, b"added again")
    get_blobs(engine).discard(sha256, lambda _: False)
    make_old(shared_url, sha256)
    store(engine, b"added again")
    let_objects_expire(engine, monkeypatch)
    monkeypatch.setattr(get_blobs(engine), "_mark_strays", lambda _: None)
    assert get_blobs(engine).sweep_unreferenced(lambda _: False) == 0  # its row is not committed yet
    assert get_blobs(engine).find_size(sha256) is not None


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.02)


async def find(engine: LocalEngine, word: str) -> list[str]:
    return [hit.document.title for hit in (await engine.search(Query(text=word))).hits]


async def test_documents_are_added_read_and_removed_on_whichever_server(open_member: OpenMember, url: str) -> None:
    first, second = open_member("first", originals_url=url), open_member("second", originals_url=url)
    text = b"The harbour master keeps a ledger of every ship."
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("inner.txt", "A lighthouse keeper reads the quillon.")
    job = await first.add(NewFile(filename="letter.txt", content=Content.from_bytes(text)))
    packed = await second.add(NewFile(filename="papers.zip", content=Content.from_bytes(archive.getvalue())))
    ended = await first.wait(job.id, 60)
    await first.wait(packed.id, 60)
    assert ended.status is JobStatus.COMPLETED and ended.document_id is not None
    original = await second.original(ended.document_id, 4, 11)
    assert b"".join([piece async for piece in original.pieces]) == text[4:11]
    while not await find(second, "quillon"):  # the member of the archive has a job of its own
        await asyncio.sleep(0.05)
    assert await second.verify() == []
    await second.remove(ended.document_id)
    assert get_blobs(second).find_size(original.sha256) == len(text)  # kept for a day
    with pytest.raises(KnowledgeError):
        await first.original(ended.document_id)
    assert original.sha256 in get_blobs(first)._copies.list_all()
    first._parts._sweep_drawn_pages()  # runs every minute
    assert original.sha256 not in get_blobs(first)._copies.list_all()


async def test_s3_that_is_away_refuses_adds_and_answers_searches_and_loses_nothing(
    open_member: OpenMember, url: str, proxy: TcpProxy
) -> None:
    adding = open_member("adding", originals_url=url, server_role="no-workers")
    first = await adding.add(NewNote(text="The harbour master keeps a ledger."))
    proxy.go_away()
    working = open_member("working", originals_url=url)  # starts, and its jobs wait
    assert (await adding.search(Query(text="harbour"))).hits == ()
    with pytest.raises(
        OriginalsUnavailable, match=r"s3://originals/test-\w+/ at http://127.0.0.1:\d+ cannot be"
    ) as caught:
        await adding.add(NewNote(text="This note is refused."))
    assert caught.value.hint and caught.value.status == 503
    status = await adding.status()
    assert not status.storage_ok and any("cannot be" in issue for issue in status.issues)
    await wait_until(lambda: working._parts.workers._failed_reads > 0)  # the original of the first note
    assert (await working.job(first.id)).status is JobStatus.QUEUED
    proxy.come_back()
    assert (await working.wait(first.id, 60)).status is JobStatus.COMPLETED
    again = await working.add(NewNote(text="This note is accepted."))
    assert (await working.wait(again.id, 60)).status is JobStatus.COMPLETED
    await wait_until(lambda: get_blobs(adding).find_issue() is None)
    assert await working.verify() == []


async def test_a_slow_s3_only_takes_longer(open_member: OpenMember, url: str, proxy: TcpProxy) -> None:
    engine = open_member("first", originals_url=url)
    proxy.delay_seconds = 1.0
    job = await engine.add(NewNote(text="The harbour master keeps a ledger."))
    assert (await engine.wait(job.id, 60)).status is JobStatus.COMPLETED


def test_a_bucket_that_refuses_is_named_with_what_to_change(
    open_member: OpenMember, url: str, s3: S3Server, prefix: str, log_in: Callable[[str], None]
) -> None:
    open_member("writer", start=False, originals_url=url)
    log_in(READER)
    with pytest.raises(OriginalsRefused, match="the credentials may not call PutObject") as caught:
        open_member("reader", start=False, originals_url=url)
    assert "s3:PutObject" in caught.value.hint
    log_in(STRANGER)
    with pytest.raises(OriginalsRefused, match="may not call ListObjectsV2"):
        open_member("stranger", start=False, originals_url=url)
    log_in("nobody")
    with pytest.raises(OriginalsRefused, match=r"credentials .* were refused \(InvalidAccessKeyId\)") as caught:
        open_member("nobody", start=False, originals_url=url)
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint
    log_in(WRITER)
    with pytest.raises(OriginalsRefused, match=r"The bucket 'no-such-bucket' of .* does not exist"):
        open_member("lost", start=False, originals_url=s3.make_url(prefix, bucket="no-such-bucket"))
    with pytest.raises(StorageFailed, match="is not the one that the other servers of this database use"):
        open_member("elsewhere", start=False, originals_url=s3.make_url(f"{prefix}-other"))


async def test_a_permission_that_is_lost_refuses_adds_until_it_is_back(
    open_member: OpenMember, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_member("first", originals_url=url)
    bucket, allowed = get_blobs(engine)._bucket, get_blobs(engine)._bucket._client
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", READER)
    bucket._client = Bucket(bucket.url)._client
    with pytest.raises(OriginalsRefused, match="may not call PutObject"):
        await engine.add(NewNote(text="This note is refused."))
    bucket._client = allowed
    job = await engine.add(NewNote(text="This note is accepted."))
    assert (await engine.wait(job.id, 60)).status is JobStatus.COMPLETED


def test_a_damaged_object_is_refused_and_reported(open_member: OpenMember, url: str, s3: S3Server, prefix: str) -> None:
    engine = open_member("first", start=False, originals_url=url)
    sha256 = store(engine, b"the right bytes")
    s3.make_client().put_object(Bucket="originals", Key=f"{prefix}/{make_key(sha256)}", Body=b"the wrong bytes")
    get_blobs(engine)._copies.forget(sha256)
    with (
        pytest.raises(StorageFailed, match="is damaged: its SHA-256 does not match"),
        get_blobs(engine).open_local(sha256),
    ):
        pass


def test_local_copies_stay_within_their_space(open_member: OpenMember, url: str, tmp_path: Path) -> None:
    engine = open_member("first", start=False, originals_url=url, originals_cache_mb=10)
    hashes = [store(engine, secrets.token_bytes(4 << 20)) for _ in range(4)]
    copies = tmp_path / "first" / "originals-cache"
    assert {path.name for path in copies.iterdir()} == set(hashes[-2:])
    with get_blobs(engine).open_local(hashes[0]) as path:
        store(engine, secrets.token_bytes(9 << 20))
        assert path.exists()  # in use
    get_blobs(engine).discard(hashes[0], lambda _: False)
    assert not path.exists()


def test_the_secret_is_in_no_message(url: str) -> None:
    bucket = Bucket(parse_bucket_url(url.replace("originals", "no-such-bucket")))
    with pytest.raises(OriginalsRefused) as caught:
        list(bucket.iterate(""))
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.details}"
