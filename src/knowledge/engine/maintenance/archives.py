"""The folder of backups that were started as jobs: below the data folder, the newest three are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from knowledge.blobs.folder import READ_CHUNK_BYTES
from knowledge.engine.backup import BackupArchive
from knowledge.errors import FileNotFound, StorageFailed
from knowledge.filesystem import file_modes
from knowledge.model import Job, JobKind, JobStatus, Original

FOLDER_NAME = "backups"
KEPT_ARCHIVES = 3
MEGABYTE_SHIFT = 20


class ArchiveFolder:
    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER_NAME

    def write(self, archive: BackupArchive, filename: str, report: Callable[[int, int], None]) -> None:
        """Write an archive and delete the oldest ones; `report` receives megabytes and may raise to stop."""
        target = self._folder / filename
        draft = target.with_suffix(".part")
        total, done = archive.size >> MEGABYTE_SHIFT, 0
        try:
            file_modes.make_folder(self._folder)
            with open(draft, "wb", opener=file_modes.private_opener) as file:
                while piece := archive.next_piece():
                    file.write(piece)
                    done += len(piece)
                    report(done >> MEGABYTE_SHIFT, max(total, 1))
            draft.replace(target)
        except OSError as error:
            raise StorageFailed(
                f"The backup could not be written to {self._folder}: {error.strerror or error}",
                hint="Free space on the disk of the data folder, or use 'knowledge backup FILE' with another disk.",
            ) from error
        finally:
            archive.close()
            draft.unlink(missing_ok=True)
        self._drop_oldest()

    def open(self, job: Job) -> Original:
        path = self._folder / job.filename
        if job.kind is not JobKind.BACKUP or job.status is not JobStatus.COMPLETED or not path.is_file():
            raise FileNotFound(
                f"Job {job.id} has no archive on this server",
                hint=f"The newest {KEPT_ARCHIVES} backups are kept; start another one.",
                job_id=job.id,
            )
        return Original(job.filename, path.stat().st_size, read_pieces(path))

    def _drop_oldest(self) -> None:
        found = sorted(self._folder.glob("*.tar"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[KEPT_ARCHIVES:]:
            path.unlink(missing_ok=True)


async def read_pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, READ_CHUNK_BYTES):
            yield piece
