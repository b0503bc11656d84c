"""Backups by schedule: one server writes, reads the file back, and deletes old ones only after a good new one."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from knowledge.engine.backup import BackupArchive, check_archive
from knowledge.errors import Cancelled, KnowledgeError, NotNow, StorageFailed
from knowledge.filesystem import file_modes
from knowledge.filesystem.fsync import sync_folder
from knowledge.model import BackupStatus
from knowledge.store.backup_records import BackupRecord, BackupRecordStore
from knowledge.store.cluster.leases import LeaseStore

log = logging.getLogger(__name__)

LEASE_NAME = "scheduled-backup"
LEASE_SECONDS = 3600.0
"""Longer than copying and checking the database takes; renewed while the archive is written."""
CHECK_SECONDS = 30.0
"""Interval at which a server looks whether a backup is due; the first look is that long after the start."""
RETRY_SECONDS = 900.0
"""Pause after a failed backup, or the interval of the schedule if that is shorter."""
NAME_PREFIX = "knowledge-scheduled-"
NAME_PATTERN = re.compile(NAME_PREFIX + r"\d{8}-\d{6}\.tar(\.age)?")
OVERDUE_INTERVALS = 2


@dataclass(frozen=True, slots=True)
class BackupPlan:
    """How often to make a backup, where to, and how many to keep."""

    every_seconds: float
    folder: Path
    keep: int
    passphrase: str | None = field(default=None, repr=False)


class BackupSchedule:
    def __init__(
        self,
        plan: BackupPlan | None,
        open_backup: Callable[[Callable[[], bool]], BackupArchive],
        records: BackupRecordStore,
        leases: LeaseStore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without a plan nothing is done; the status then shows nothing either."""
        self._plan, self._open_backup, self._records, self._leases = plan, open_backup, records, leases
        self._clock, self._closing = clock, threading.Event()
        self._thread = threading.Thread(target=self._run_periodically, name="backups", daemon=True)

    def start(self) -> None:
        if self._plan is not None:
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def read_status(self) -> BackupStatus:
        if self._plan is None:
            return BackupStatus()
        record = self._records.read()
        return BackupStatus(
            every_seconds=self._plan.every_seconds,
            succeeded_at=_make_time(record.succeeded_at),
            attempted_at=_make_time(record.attempted_at),
            file=record.file,
            error=record.error,
            overdue=0 < record.succeeded_at < self._clock() - OVERDUE_INTERVALS * self._plan.every_seconds,
        )

    def run_if_due(self) -> bool:
        """Make a backup if one is due and no other server makes it; return whether one was made."""
        plan = self._plan
        if plan is None or not self._is_due(plan, self._records.read()):
            return False
        token = self._leases.acquire(LEASE_NAME, LEASE_SECONDS)
        if token is None:
            return False
        try:  # another server may have made it before this one got the lease
            return self._is_due(plan, self._records.read()) and self._make_backup(plan)
        finally:
            with suppress(KnowledgeError):  # the database is away: the lease expires
                self._leases.release(LEASE_NAME, self._leases.acquire(LEASE_NAME, LEASE_SECONDS) or token)

    def _is_due(self, plan: BackupPlan, record: BackupRecord) -> bool:
        """Return whether the interval has passed, and the pause after a failure; times of the future do not count."""
        now = self._clock()
        pause = min(RETRY_SECONDS, plan.every_seconds) if record.error else 0.0
        return not (now - plan.every_seconds < record.succeeded_at <= now or now - pause < record.attempted_at <= now)

    def _make_backup(self, plan: BackupPlan) -> bool:
        record, began = self._records.read(), self._clock()
        suffix = ".tar" if plan.passphrase is None else ".tar.age"
        target = plan.folder / f"{NAME_PREFIX}{datetime.fromtimestamp(began, UTC):%Y%m%d-%H%M%S}{suffix}"
        try:
            self._write(plan, target)
        except Cancelled:
            return False
        except (KnowledgeError, OSError) as error:
            if self._closing.is_set():
                return False
            log.error("the backup by schedule failed: %s", error)
            self._records.write(replace(record, attempted_at=began, error=str(error) or type(error).__name__))
            return False
        self._records.write(BackupRecord(began, began, str(target), ""))
        log.info("wrote and checked the backup %s", target.name)
        delete_old_archives(plan.folder, plan.keep)
        return True

    def _write(self, plan: BackupPlan, target: Path) -> None:
        draft = target.with_name(f".{target.name}.part")
        archive = self._open_backup(self._closing.is_set)
        try:
            file_modes.make_folder(plan.folder)
            file_modes.sweep_drafts(plan.folder, f".{NAME_PREFIX}*.part")
            self._write_pieces(archive, draft, plan.passphrase)
            check_file(draft, plan.passphrase)
            draft.replace(target)
            sync_folder(plan.folder)
        except OSError as error:
            raise StorageFailed(
                f"The backup could not be written to {plan.folder}: {error.strerror or error}",
                hint="Check the free space and the permissions of KNOWLEDGE_BACKUP_DIR.",
            ) from error
        finally:
            archive.close()
            draft.unlink(missing_ok=True)

    def _write_pieces(self, archive: BackupArchive, draft: Path, passphrase: str | None) -> None:
        renew_at = time.monotonic() + LEASE_SECONDS / 6
        with open(draft, "wb", opener=file_modes.private_opener) as file:
            writer = None
            if passphrase is not None:
                from knowledge.engine.maintenance.encryption import EncryptingWriter  # takes time to import

                writer = EncryptingWriter(file, passphrase)
            while piece := archive.next_piece():
                (writer or file).write(piece)
                if self._closing.is_set():
                    raise Cancelled("The server ends")
                if time.monotonic() > renew_at:
                    if self._leases.acquire(LEASE_NAME, LEASE_SECONDS) is None:
                        raise NotNow("Another server makes the backup, because this one was too slow")
                    renew_at = time.monotonic() + LEASE_SECONDS / 6
            if writer is not None:
                writer.finish()
            file.flush()
            os.fsync(file.fileno())

    def _run_periodically(self) -> None:
        assert self._plan is not None
        while not self._closing.wait(min(CHECK_SECONDS, self._plan.every_seconds)):
            try:
                self.run_if_due()
            except Exception:
                log.exception("looking whether a backup is due failed; trying again in %.0f s", CHECK_SECONDS)


def check_file(path: Path, passphrase: str | None) -> None:
    """Read an archive back from the disk and compare all checksums; raises Damaged."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):  # what was just written shall not be answered from memory
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if passphrase is None:
            check_archive(file)
            return
        from knowledge.engine.maintenance.encryption import open_encrypted

        check_archive(open_encrypted(file, passphrase))


def delete_old_archives(folder: Path, keep: int) -> None:
    """Delete the oldest backups of the schedule; other files in the folder stay."""
    found = sorted(path for path in folder.iterdir() if NAME_PATTERN.fullmatch(path.name))
    for path in found[:-keep]:
        with suppress(OSError):
            path.unlink()


def _make_time(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
