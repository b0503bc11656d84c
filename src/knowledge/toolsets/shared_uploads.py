"""Uploads in parts that any server of a database can go on with, kept in the folder of originals that they share."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread

from knowledge.errors import StorageFailed
from knowledge.filesystem.file_modes import make_folder, private_opener
from knowledge.model import Json
from knowledge.toolsets.staged_uploads import (
    EMPTY_UPLOAD_SECONDS,
    Owner,
    StagedUpload,
    StagedUploads,
    StagingFolder,
    UploadDetails,
    UploadLimits,
)

STATE_NAME, ANSWER_NAME = "upload.json", "answer.json"


class SharedStagingFolder(StagingFolder):
    """One folder for each upload: its state, its parts, and at the end its answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = self._own_folder = folder

    def _open(self) -> None:
        make_folder(self._folder)

    def upload_folder(self, uid: UUID) -> Path:
        return self._folder / uid.hex

    def write_json(self, uid: UUID, name: str, body: Json) -> None:
        """Write a file of an upload atomically."""
        target = self.upload_folder(uid) / name
        draft = target.with_suffix(f".{os.getpid()}.new")
        try:
            self._open()
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with open(draft, "w", encoding="utf-8", opener=private_opener) as file:
                json.dump(body, file)
            draft.replace(target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise StorageFailed(f"Cannot store the upload: {error.strerror or 'disk error'}") from error

    def read_json(self, uid: UUID, name: str) -> Json | None:
        try:
            found = json.loads((self.upload_folder(uid) / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def list_uids(self) -> list[UUID]:
        try:
            return [UUID(path.name) for path in self._folder.iterdir() if len(path.name) == 32]
        except (FileNotFoundError, ValueError):
            return []

    def list_stateless(self, horizon: float) -> list[UUID]:
        """Return the folders from before a time that a killed server left without a state."""
        found = []
        for uid in self.list_uids():
            folder = self.upload_folder(uid)
            try:
                if not (folder / STATE_NAME).exists() and folder.stat().st_mtime < horizon:
                    found.append(uid)
            except FileNotFoundError:  # removed by another server
                continue
        return found

    def list_parts(self, uid: UUID) -> dict[int, int]:
        """Return the size of each part that has arrived, on whichever server."""
        parts = {}
        for path in self.upload_folder(uid).glob("*.part"):
            try:
                parts[int(path.stem)] = path.stat().st_size
            except (ValueError, FileNotFoundError):
                continue
        return parts

    def remove_parts(self, uid: UUID) -> None:
        for path in self.upload_folder(uid).glob("*.part"):
            path.unlink(missing_ok=True)

    def remove_upload(self, upload: UUID) -> None:
        shutil.rmtree(self.upload_folder(upload), ignore_errors=True)


class SharedUploads(StagedUploads):
    """Uploads whose state is read from the shared folder with every call.

    The time of the last part is the time of the file with the state. Parts of one upload that arrive on two servers at
    once may exceed its total size by one part each, which finishing the upload reports.
    """

    def __init__(self, limits: UploadLimits, clock: Callable[[], float] = time.time) -> None:
        super().__init__(limits, clock)
        self._shared = SharedStagingFolder(limits.folder)
        self._staging = self._shared

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Remove expired uploads of all servers while running."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._remove_expired_forever)
            try:
                yield
            finally:
                group.cancel_scope.cancel()

    async def start(self, owner: Owner, details: UploadDetails) -> StagedUpload:
        await self.remove_expired()
        hashed = hash_owner(owner)
        self._check_capacity(hashed, details.total_size)
        now = self._clock()
        upload = StagedUpload(
            owner=hashed,
            details=details,
            deadline=now + self.limits.ttl_s,
            empty_until=now + EMPTY_UPLOAD_SECONDS,
        )
        state: Json = {
            "owner": [*upload.owner],
            "details": asdict(details) | {"tags": [*details.tags]},
            "job_uid": upload.job_uid.hex,
            "empty_until": upload.empty_until,
        }
        await anyio.to_thread.run_sync(self._shared.write_json, upload.uid, STATE_NAME, state)
        self.extend_deadline(upload)
        return upload

    def find(self, owner: Owner, uid: str) -> StagedUpload:
        try:
            upload = self._load(UUID(uid))
        except ValueError:
            upload = None
        if upload is None or upload.owner != hash_owner(owner) or self._is_expired(upload):
            raise self._not_found_error(uid)
        return upload

    async def mark_finished(self, upload: StagedUpload, answer: Json) -> None:
        upload.answer, upload.parts = answer, {}
        await anyio.to_thread.run_sync(self._shared.write_json, upload.uid, ANSWER_NAME, answer)
        await anyio.to_thread.run_sync(self._shared.remove_parts, upload.uid)

    async def remove_expired(self) -> None:
        await super().remove_expired()
        horizon = self._clock() - self.limits.ttl_s
        for uid in await anyio.to_thread.run_sync(self._shared.list_stateless, horizon):
            await anyio.to_thread.run_sync(self._shared.remove_upload, uid)

    def extend_deadline(self, upload: StagedUpload) -> None:
        now = self._clock()
        upload.deadline = now + self.limits.ttl_s
        try:
            os.utime(self._shared.upload_folder(upload.uid) / STATE_NAME, (now, now))
        except OSError:  # removed meanwhile
            return

    def _exists(self, upload: StagedUpload) -> bool:
        return (self._shared.upload_folder(upload.uid) / STATE_NAME).exists()

    def _list_uploads(self) -> list[StagedUpload]:
        return [upload for uid in self._shared.list_uids() if (upload := self._load(uid)) is not None]

    def _load(self, uid: UUID) -> StagedUpload | None:
        state: dict[str, Any] | None = self._shared.read_json(uid, STATE_NAME)
        if state is None:
            return None
        try:
            touched = (self._shared.upload_folder(uid) / STATE_NAME).stat().st_mtime
            account, key = state["owner"]
            return StagedUpload(
                uid=uid,
                owner=(account, key),
                details=UploadDetails(**{**state["details"], "tags": tuple(state["details"]["tags"])}),
                deadline=touched + self.limits.ttl_s,
                empty_until=float(state["empty_until"]),
                job_uid=UUID(str(state["job_uid"])),
                parts=self._shared.list_parts(uid),
                answer=self._shared.read_json(uid, ANSWER_NAME),
            )
        except (KeyError, TypeError, ValueError, FileNotFoundError):  # written by another version, or just removed
            return None


def hash_owner(owner: Owner) -> Owner:
    """Return an owner whose API key is replaced by its digest, because it is written to a file."""
    account, key = owner
    return account, None if key is None else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
