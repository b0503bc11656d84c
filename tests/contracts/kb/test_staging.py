"""Staged uploads: ownership, deadlines, quotas and a full disk."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from knowledge.errors import NotNow, StorageFailed, UploadNotFound
from knowledge.toolsets.staged_uploads import StagedUploads, StagingFolder, UploadDetails, UploadLimits

OWNER, STRANGER = (0, None), (7, "another's key")


def encode(piece: bytes) -> str:
    return base64.b64encode(piece).decode()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def make_details(size: int = 10) -> UploadDetails:
    return UploadDetails(filename="a.txt", total_size=size, collection="documents")


@pytest.mark.requirement("004.upload.owner")
async def test_an_upload_does_not_exist_for_other_callers(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    upload = await uploads.start(OWNER, make_details())
    assert await uploads.find(OWNER, str(upload.uid)) is upload
    with pytest.raises(UploadNotFound):
        await uploads.find(STRANGER, str(upload.uid))


async def test_every_part_restarts_the_deadline_of_its_upload(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, ttl_s=600), clock)
    upload = await uploads.start(OWNER, make_details())
    for index in range(3):
        clock.now += 500
        await uploads.store_part(await uploads.find(OWNER, str(upload.uid)), index, encode(b"abc"))
    clock.now += 601
    with pytest.raises(UploadNotFound):
        await uploads.find(OWNER, str(upload.uid))
    await uploads.remove_expired()
    assert [name for name in files(tmp_path) if name.endswith(".part")] == []
    with pytest.raises(UploadNotFound):
        await uploads.store_part(upload, 3, encode(b"d"))


async def test_an_upload_does_not_expire_while_it_is_read(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, ttl_s=600), clock)
    upload = await uploads.start(OWNER, make_details(3))
    await uploads.store_part(upload, 0, encode(b"abc"))
    async with uploads.open_content(upload) as content:
        clock.now += 10_000
        await uploads.remove_expired()
        assert content is not None
        assert [piece async for piece in content.pieces] == [b"abc"]
    assert await uploads.find(OWNER, str(upload.uid)) is upload


async def test_a_part_that_cannot_be_written_keeps_its_previous_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    upload = await uploads.start(OWNER, make_details(3))
    await uploads.store_part(upload, 0, encode(b"abc"))

    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(StorageFailed, match="No space left"):
            await uploads.store_part(upload, 0, encode(b"xyz"))
    async with uploads.open_content(upload) as content:
        assert content is not None
        assert [piece async for piece in content.pieces] == [b"abc"]


async def test_cleanup_keeps_the_parts_of_running_processes(tmp_path: Path) -> None:
    first = StagedUploads(UploadLimits(folder=tmp_path))
    async with first.run():
        upload = await first.start(OWNER, make_details())
        await first.store_part(upload, 0, encode(b"abc"))
        StagingFolder(tmp_path).remove_abandoned()
        assert "0.part" in files(tmp_path)
    assert files(tmp_path) == []


async def test_the_number_of_uploads_is_limited(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    for _ in range(1000):
        await uploads.start(OWNER, make_details())
    with pytest.raises(NotNow):
        await uploads.start(OWNER, make_details())


MB = 1 << 20


async def test_one_owner_may_reserve_a_quarter_of_the_space(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path, max_file_bytes=100 * MB, total_bytes=1000 * MB))
    for key in ("first key", "second key"):
        await uploads.start((5, key), make_details(100 * MB))
    with pytest.raises(NotNow, match=r"in use by your other uploads") as refused:
        await uploads.start((5, "third key"), make_details(100 * MB))
    assert refused.value.details["max_bytes"] == 250 * MB
    other = await uploads.start(STRANGER, make_details(100 * MB))
    await uploads.store_part(other, 0, encode(b"abc"))


async def test_one_owner_may_have_a_quarter_of_the_uploads(tmp_path: Path) -> None:
    uploads = StagedUploads(UploadLimits(folder=tmp_path))
    for _ in range(1000):
        await uploads.start(OWNER, make_details(1))
    with pytest.raises(NotNow, match="1000 of 1000 uploads"):
        await uploads.start(OWNER, make_details(1))
    assert (await uploads.start(STRANGER, make_details(1))).owner == STRANGER


async def test_an_upload_without_parts_reserves_its_space_for_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    uploads = StagedUploads(UploadLimits(folder=tmp_path, max_file_bytes=10, total_bytes=10, ttl_s=600), clock)
    silent = await uploads.start(OWNER, make_details(10))
    with pytest.raises(NotNow):
        await uploads.start(STRANGER, make_details(10))
    clock.now += 61
    begun = await uploads.start(STRANGER, make_details(10))
    await uploads.store_part(begun, 0, encode(b"abc"))
    clock.now += 61
    with pytest.raises(NotNow, match="quota exceeded"):  # it can continue once space is free
        await uploads.store_part(await uploads.find(OWNER, str(silent.uid)), 0, encode(b"abc"))
    await uploads.store_part(begun, 1, encode(b"defghij"))
    async with uploads.open_content(begun):
        pass
    await uploads.mark_finished(begun, {})
    await uploads.store_part(silent, 0, encode(b"abc"))
