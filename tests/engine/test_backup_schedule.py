"""Backups by schedule: due ones are made once, checked, encrypted and kept; failures are shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from knowledge.engine import backup as backups
from knowledge.engine.local import LocalEngine
from knowledge.engine.maintenance import encryption, schedule
from knowledge.engine.maintenance.schedule import BackupPlan, BackupSchedule
from knowledge.errors import Damaged, InvalidParameter
from knowledge.store.backup_records import BackupRecordStore
from knowledge.store.cluster.leases import LeaseStore
from tests.support.engines import add_note

HOUR = 3600.0
PASSPHRASE = "a long passphrase of several words"
AGE_FILE = (
    "6167652d656e6372797074696f6e2e6f72672f76310a2d3e20736372797074204d4a6c396e5562364c614c63685161336441"
    "6e486a672032300a552f516f7a58694738444646514a585836515453354659705152467167766b63516342494462334a674d"
    "4d0a2d2d2d2074664f67314c317566736753464c58314e73566b595534637a6c50666f4c4d4766696d6b303730666134510a"
    "824e687d58a12d15741ed65652b4b0c221215d7d0226fb7b6499e2b7631633c99babe9d37b152c7550664ef59f1cf199acff"
)
"""Written by pyrage 1.4.0, an implementation of age in Rust, with its own cost of scrypt."""


class SetClock:
    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


def make_schedule(
    local: LocalEngine,
    folder: Path,
    clock: SetClock,
    *,
    keep: int = 2,
    passphrase: str | None = None,
    server: str = "a",
) -> BackupSchedule:
    parts = local._parts
    plan = BackupPlan(HOUR, folder, keep, passphrase)
    records, leases = BackupRecordStore(parts.database), LeaseStore(parts.database, server)
    return BackupSchedule(plan, parts.maintenance.open_backup, records, leases, clock)


async def test_a_backup_is_made_when_it_is_due_and_the_newest_are_kept(local: LocalEngine, tmp_path: Path) -> None:
    await add_note(local, "tea in the kitchen")
    clock, folder = SetClock(), tmp_path / "safe"
    made = make_schedule(local, folder, clock)
    assert made.run_if_due() and not made.run_if_due()
    (folder / "of-somebody-else.tar").write_bytes(b"")
    for _ in range(3):
        clock.seconds += HOUR
        assert made.run_if_due()
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3 and "of-somebody-else.tar" in names
    status = made.read_status()
    assert status.file.endswith(names[1]) and not status.error and not status.overdue
    with (folder / names[1]).open("rb") as archive:
        backups.restore_backup(archive, tmp_path / "restored")
    clock.seconds -= 10 * HOUR  # set back: the newest backup is of the future
    assert made.run_if_due()
    clock.seconds += 30 * HOUR
    assert made.read_status().overdue


async def test_of_two_servers_one_makes_the_backup(local: LocalEngine, tmp_path: Path) -> None:
    clock = SetClock()
    first, second = (make_schedule(local, tmp_path / "safe", clock, server=name) for name in "ab")
    leases = LeaseStore(local._parts.database, "a")
    token = leases.acquire(schedule.LEASE_NAME, 60)
    assert token is not None and not second.run_if_due()
    leases.release(schedule.LEASE_NAME, token)
    assert [first.run_if_due(), second.run_if_due()] == [True, False]


async def test_an_encrypted_backup_opens_with_its_passphrase_only(local: LocalEngine, tmp_path: Path) -> None:
    await add_note(local, "tea in the kitchen")
    made = make_schedule(local, tmp_path / "safe", SetClock(), passphrase=PASSPHRASE)
    assert made.run_if_due()
    (path,) = (tmp_path / "safe").iterdir()
    assert path.suffix == ".age" and b"tea in the kitchen" not in path.read_bytes()
    schedule.check_file(path, PASSPHRASE)
    with pytest.raises(InvalidParameter, match="does not open this backup"):
        schedule.check_file(path, "another passphrase")


async def test_a_failed_backup_is_shown_and_deletes_nothing(
    local: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, folder = SetClock(), tmp_path / "safe"
    made = make_schedule(local, folder, clock, keep=1)
    monkeypatch.setattr(local._parts.status, "_backups", made)
    assert made.run_if_due()
    before = sorted(folder.iterdir())
    clock.seconds += HOUR
    with monkeypatch.context() as patched:  # the disk returns other bytes than were written
        patched.setattr(schedule, "check_archive", lambda file: backups.check_archive(io.BytesIO(file.read()[:-4096])))
        assert not made.run_if_due()
    assert sorted(folder.iterdir()) == before
    status = await local.status()
    assert status.health == "degraded" and any("backup by schedule failed" in issue for issue in status.issues)
    assert not made.run_if_due()  # the pause after a failure
    clock.seconds += HOUR
    assert made.run_if_due()
    assert (await local.status()).backup.error == "" and sorted(folder.iterdir()) != before


def encrypt(content: bytes) -> bytes:
    out = io.BytesIO()
    writer = encryption.EncryptingWriter(out, PASSPHRASE, work_factor=2)
    writer.write(content)
    writer.finish()
    return out.getvalue()


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_what_was_encrypted_is_read_again(size: int) -> None:
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert encryption.open_encrypted(io.BytesIO(encrypt(content)), PASSPHRASE).read() == content


def test_an_encrypted_file_that_was_changed_is_refused() -> None:
    sealed, chunk = encrypt(bytes(200_000)), encryption.CHUNK_BYTES + encryption.TAG_BYTES
    start = len(sealed) - 3 * chunk - (200_000 - 3 * encryption.CHUNK_BYTES + encryption.TAG_BYTES)
    cut_at_a_chunk, cut_within = sealed[: start + 2 * chunk], sealed[:-10]
    swapped = sealed[:start] + sealed[start + chunk : start + 2 * chunk] + sealed[start : start + chunk]
    flipped = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for wrong in (cut_at_a_chunk, cut_within, swapped + sealed[start + 2 * chunk :], flipped, sealed + b"more"):
        with pytest.raises(Damaged, match="cut off or changed"):
            encryption.open_encrypted(io.BytesIO(wrong), PASSPHRASE).read()
    for wrong in (sealed[:50], sealed.replace(b"scrypt", b"X25519", 1), sealed.replace(b"scrypt ", b"scrypt x", 1)):
        with pytest.raises(Damaged, match="cannot be read"):
            encryption.open_encrypted(io.BytesIO(wrong), PASSPHRASE).read()


@pytest.mark.long
def test_a_file_of_another_age_program_is_read() -> None:
    content = encryption.open_encrypted(io.BytesIO(bytes.fromhex(AGE_FILE)), "horse battery").read()
    assert content == b"tea in the kitchen"
