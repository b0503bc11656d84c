"""Staged uploads from inside: whose they are, how long they live, and what a full disk does to them."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from knowledge.errors import NotNow, StorageFailed, UploadNotFound
from knowledge.toolsets.staged_uploads import StagedUploads, StagingFolder, UploadDetails, UploadLimits

OWNER, STRANGER = (0, None), (7, "another's key")


def encoded(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def a_promise(size: int = 10) -> UploadDetails:
    return UploadDetails(filename="a.txt", total_size=size, collection="documents")


@pytest.mark.requirement("004.upload.owner")
async def test_an_upload_does_not_exist_for_anybody_else(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    upload = await uploads.start(OWNER, a_promise())
    assert uploads.find(OWNER, str(upload.uid)) is upload
    with pytest.raises(UploadNotFound):
        uploads.find(STRANGER, str(upload.uid))


async def test_every_part_gives_an_upload_its_whole_time_again(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, ttl_s=600), clock)
    upload = await uploads.start(OWNER, a_promise())
    for index in range(3):
        clock.now += 500
        await uploads.store_part(uploads.find(OWNER, str(upload.uid)), index, encoded(b"abc"))
    clock.now += 601
    with pytest.raises(UploadNotFound):
        uploads.find(OWNER, str(upload.uid))
    await uploads.remove_expired()
    assert [name for name in files(tmp_path) if name.endswith(".part")] == []
    with pytest.raises(UploadNotFound):
        await uploads.store_part(upload, 3, encoded(b"d"))


async def test_an_upload_that_is_being_handed_on_does_not_expire(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, ttl_s=600), clock)
    upload = await uploads.start(OWNER, a_promise(3))
    await uploads.store_part(upload, 0, encoded(b"abc"))
    async with uploads.open_content(upload) as content:
        clock.now += 10_000
        await uploads.remove_expired()
        assert content is not None
        assert [piece async for piece in content.pieces] == [b"abc"]
    assert uploads.find(OWNER, str(upload.uid)) is upload


async def test_a_part_that_cannot_be_written_leaves_the_one_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    upload = await uploads.start(OWNER, a_promise(3))
    await uploads.store_part(upload, 0, encoded(b"abc"))

    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(StorageFailed, match="No space left"):
            await uploads.store_part(upload, 0, encoded(b"xyz"))
    async with uploads.open_content(upload) as content:
        assert content is not None
        assert [piece async for piece in content.pieces] == [b"abc"]


async def test_a_sweep_leaves_the_parts_of_living_processes(tmp_path: Path) -> None:
    first = StagedUploads(UploadLimits(folder=tmp_path))
    async with first.run():
        upload = await first.start(OWNER, a_promise())
        await first.store_part(upload, 0, encoded(b"abc"))
        StagingFolder(tmp_path).remove_abandoned()
        assert "0.part" in files(tmp_path)
    assert files(tmp_path) == []


async def test_there_is_an_end_to_the_number_of_uploads(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    for _ in range(1000):
        await uploads.start(OWNER, a_promise())
    with pytest.raises(NotNow):
        await uploads.start(OWNER, a_promise())


MB = 1 << 20


async def test_one_owner_takes_a_quarter_of_the_room_and_leaves_the_rest_to_others(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path, max_file_bytes=100 * MB, total_bytes=1000 * MB))
    for key in ("first key", "second key"):
        await uploads.start((5, key), a_promise(100 * MB))
    with pytest.raises(NotNow, match=r"taken by your other uploads") as refused:
        await uploads.start((5, "third key"), a_promise(100 * MB))
    assert refused.value.details["max_bytes"] == 250 * MB
    other = await uploads.start(STRANGER, a_promise(100 * MB))
    await uploads.store_part(other, 0, encoded(b"abc"))


async def test_one_owner_cannot_take_the_places_of_all_uploads(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    for _ in range(1000):
        await uploads.start(OWNER, a_promise(1))
    with pytest.raises(NotNow, match="1000 of 1000 uploads"):
        await uploads.start(OWNER, a_promise(1))
    assert (await uploads.start(STRANGER, a_promise(1))).owner == STRANGER


async def test_room_is_not_kept_for_long_where_nothing_arrives(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, max_file_bytes=10, total_bytes=10, ttl_s=600), clock)
    silent = await uploads.start(OWNER, a_promise(10))
    with pytest.raises(NotNow):
        await uploads.start(STRANGER, a_promise(10))
    clock.now += 61
    begun = await uploads.start(STRANGER, a_promise(10))
    await uploads.store_part(begun, 0, encoded(b"abc"))
    clock.now += 61
    with pytest.raises(NotNow, match="no room"):  # it may go on when there is room again
        await uploads.store_part(uploads.find(OWNER, str(silent.uid)), 0, encoded(b"abc"))
    await uploads.store_part(begun, 1, encoded(b"defghij"))
    async with uploads.open_content(begun):
        pass
    await uploads.mark_finished(begun, {})
    await uploads.store_part(silent, 0, encoded(b"abc"))
