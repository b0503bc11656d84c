"""Uploads in parts that any server of a database can go on with, kept beside the originals that they share."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol
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
    Staging,
    StagingFolder,
    UploadDetails,
    UploadLimits,
)

STATE_NAME, ANSWER_NAME, PART_SUFFIX = "upload.json", "answer.json", ".part"


@dataclass(slots=True)
class StagedFiles:
    """What is stored of one upload."""

    parts: dict[int, int] = field(default_factory=dict)
    """Size of each part that has arrived, on whichever server, by index."""
    touched: float | None = None
    """Time of the last part; None without a state, which a killed server may leave."""
    has_answer: bool = False
    newest: float = 0.0


class SharedStaging(Staging, Protocol):
    """A place that all servers of a database use, with a state, parts, and at the end an answer for each upload."""

    def write_json(self, uid: UUID, name: str, body: Json) -> None: ...

    def read_json(self, uid: UUID, name: str) -> Json | None: ...

    def touch(self, uid: UUID, now: float) -> None:
        """Store the time of the last part."""
        ...

    def remove_parts(self, uid: UUID) -> None: ...

    def list_files(self, uid: UUID | None = None) -> dict[UUID, StagedFiles]:
        """Return what is stored of one upload, or of all."""
        ...


class SharedStagingFolder(StagingFolder):
    """One folder for each upload."""

    def __init__(self, folder: Path) -> None:
        self._folder = self._own_folder = folder

    def _open(self) -> None:
        make_folder(self._folder)

    def write_json(self, uid: UUID, name: str, body: Json) -> None:
        """Write a file of an upload atomically."""
        target = self._folder / uid.hex / name
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
            return load_object((self._folder / uid.hex / name).read_bytes())
        except OSError:
            return None

    def touch(self, uid: UUID, now: float) -> None:
        with suppress(OSError):  # removed meanwhile
            os.utime(self._folder / uid.hex / STATE_NAME, (now, now))

    def list_files(self, uid: UUID | None = None) -> dict[UUID, StagedFiles]:
        try:
            folders = (
                [self._folder / uid.hex] if uid else [path for path in self._folder.iterdir() if is_uid(path.name)]
            )
        except FileNotFoundError:
            return {}
        found = {}
        for folder in folders:
            with suppress(FileNotFoundError):  # removed by another server
                found[UUID(folder.name)] = _list_folder(folder)
        return found

    def remove_parts(self, uid: UUID) -> None:
        for path in (self._folder / uid.hex).glob(f"*{PART_SUFFIX}"):
            path.unlink(missing_ok=True)


def _list_folder(folder: Path) -> StagedFiles:
    found = StagedFiles(newest=folder.stat().st_mtime)
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.name == STATE_NAME:
                found.touched = path.stat().st_mtime
            elif path.name == ANSWER_NAME:
                found.has_answer = True
            elif path.suffix == PART_SUFFIX and path.stem.isdecimal():
                found.parts[int(path.stem)] = path.stat().st_size
    return found


def is_uid(name: str) -> bool:
    return len(name) == 32 and set(name) <= set("0123456789abcdef")


def load_object(data: bytes) -> Json | None:
    """Return a JSON object; None if it is damaged."""
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class SharedUploads(StagedUploads):
    """Uploads whose state is read from the shared place with every call.

    Parts of one upload that arrive on two servers at once may exceed its total size by one part each, which finishing
    the upload reports.
    """

    def __init__(
        self, limits: UploadLimits, clock: Callable[[], float] = time.time, staging: SharedStaging | None = None
    ) -> None:
        super().__init__(limits, clock)
        self._shared = staging or SharedStagingFolder(limits.folder)
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
        await self._check_capacity(hashed, details.total_size)
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
        await self.extend_deadline(upload)
        return upload

    async def find(self, owner: Owner, uid: str) -> StagedUpload:
        try:
            [upload] = await anyio.to_thread.run_sync(self._load_uploads, UUID(uid))
        except ValueError:
            raise self._not_found_error(uid) from None
        if upload.owner != hash_owner(owner) or self._is_expired(upload):
            raise self._not_found_error(uid)
        return upload

    async def mark_finished(self, upload: StagedUpload, answer: Json) -> None:
        upload.answer, upload.parts = answer, {}
        await anyio.to_thread.run_sync(self._shared.write_json, upload.uid, ANSWER_NAME, answer)
        await anyio.to_thread.run_sync(self._shared.remove_parts, upload.uid)

    async def remove_expired(self) -> None:
        await super().remove_expired()
        await anyio.to_thread.run_sync(self._remove_stateless, self._clock() - self.limits.ttl_s)

    def _remove_stateless(self, horizon: float) -> None:
        for uid, files in self._shared.list_files().items():
            if files.touched is None and files.newest < horizon:
                self._shared.remove_upload(uid)

    async def extend_deadline(self, upload: StagedUpload) -> None:
        now = self._clock()
        upload.deadline = now + self.limits.ttl_s
        await anyio.to_thread.run_sync(self._shared.touch, upload.uid, now)

    async def _exists(self, upload: StagedUpload) -> bool:
        found = await anyio.to_thread.run_sync(self._shared.list_files, upload.uid)
        return any(files.touched is not None for files in found.values())

    async def _list_uploads(self) -> list[StagedUpload]:
        return await anyio.to_thread.run_sync(self._load_uploads)

    def _load_uploads(self, uid: UUID | None = None) -> list[StagedUpload]:
        files = self._shared.list_files(uid)
        return [upload for uid, found in files.items() if (upload := self._load(uid, found)) is not None]

    def _load(self, uid: UUID, files: StagedFiles) -> StagedUpload | None:
        state: dict[str, Any] | None = self._shared.read_json(uid, STATE_NAME)
        if state is None or files.touched is None:
            return None
        try:
            account, key = state["owner"]
            return StagedUpload(
                uid=uid,
                owner=(account, key),
                details=UploadDetails(**{**state["details"], "tags": tuple(state["details"]["tags"])}),
                deadline=files.touched + self.limits.ttl_s,
                empty_until=float(state["empty_until"]),
                job_uid=UUID(str(state["job_uid"])),
                parts=files.parts,
                answer=self._shared.read_json(uid, ANSWER_NAME) if files.has_answer else None,
            )
        except (KeyError, TypeError, ValueError):  # written by another version
            return None


def hash_owner(owner: Owner) -> Owner:
    """Return an owner whose API key is replaced by its digest, because it is written to a file."""
    account, key = owner
    return account, None if key is None else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
