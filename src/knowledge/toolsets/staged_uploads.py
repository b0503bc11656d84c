"""Stages files that are uploaded in parts: quotas, deadlines and removal of abandoned uploads."""

from __future__ import annotations

import base64
import binascii
import logging
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias
from uuid import UUID

import anyio
import anyio.to_thread
from filelock import FileLock, Timeout

from knowledge.errors import InvalidParameter, KnowledgeError, NotNow, StorageFailed, TooLarge, UploadNotFound
from knowledge.filesystem.file_modes import FILE_MODE, make_folder, private_opener
from knowledge.model import LOCAL_OWNER, Content, Json, JsonValue, new_uid

log = logging.getLogger(__name__)

LOCK_SUFFIX = ".lock"
READ_CHUNK_BYTES = 1 << 20


class Staging(Protocol):
    """Where the parts of uploads are stored."""

    def write_part(self, upload: UUID, index: int, data: bytes) -> None: ...

    def read_parts(self, upload: UUID, indexes: Sequence[int]) -> AsyncIterator[bytes]: ...

    def remove_upload(self, upload: UUID) -> None: ...

    def remove_abandoned(self) -> None: ...

    def close(self) -> None: ...


class StagingFolder:
    """The folder of one process for parts, made with the first one; a file lock marks it as in use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own_folder = folder / secrets.token_hex(8)
        self._lock: FileLock | None = None
        self._open_lock = threading.Lock()

    def part_path(self, upload: UUID, index: int) -> Path:
        return self._own_folder / upload.hex / f"{index}.part"

    def write_part(self, upload: UUID, index: int, data: bytes) -> None:
        """Write a part atomically; after an error the previous version of the part is kept."""
        target = self.part_path(upload, index)
        temporary = target.with_suffix(".new")
        try:
            self._open()
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with open(temporary, "wb", opener=private_opener) as file:
                file.write(data)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StorageFailed(f"Cannot store part {index}: {error.strerror or 'disk error'}") from error

    async def read_parts(self, upload: UUID, indexes: Sequence[int]) -> AsyncIterator[bytes]:
        """Yield the bytes of the parts one after the other."""
        try:
            for index in indexes:
                async with await anyio.open_file(self.part_path(upload, index), "rb") as file:
                    while piece := await file.read(READ_CHUNK_BYTES):
                        yield piece
        except OSError as error:
            raise StorageFailed("Cannot read a staged part", hint="Start again with kb_upload_start.") from error

    def remove_upload(self, upload: UUID) -> None:
        shutil.rmtree(self._own_folder / upload.hex, ignore_errors=True)

    def remove_abandoned(self) -> None:
        """Remove the folders of processes that have ended."""
        if not self._folder.is_dir():
            return
        for lock_path in self._folder.glob(f"*{LOCK_SUFFIX}"):
            _remove_if_abandoned(lock_path)

    def close(self) -> None:
        shutil.rmtree(self._own_folder, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()
            self._own_folder.with_suffix(LOCK_SUFFIX).unlink(missing_ok=True)
            self._lock = None

    def _open(self) -> None:
        with self._open_lock:
            if self._lock is not None:
                return
            make_folder(self._folder)
            # An OS lock, because a soft lock (a file that exists) would outlive a killed process.
            lock = FileLock(
                self._own_folder.with_suffix(LOCK_SUFFIX),
                timeout=5,
                mode=FILE_MODE,
                thread_local=False,
                fallback_to_soft=False,
            )
            lock.acquire()
            self._own_folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = lock


def _remove_if_abandoned(lock_path: Path) -> None:
    lock = FileLock(lock_path, timeout=0, mode=FILE_MODE, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except (Timeout, OSError):  # its process is running, or it belongs to another user
        return
    try:
        shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
    finally:
        lock.release()
    lock_path.unlink(missing_ok=True)


def decode_part(data: str, index: int) -> bytes:
    """Decode strict base64; invalid characters are an error, not skipped."""
    try:
        piece = base64.b64decode(data.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        piece = b""
    if not piece:
        raise InvalidParameter(
            f"Part {index} is not valid base64",
            hint="Encode the bytes with the standard base64 alphabet, with padding and without line breaks.",
            parameter="data",
            chunk_index=index,
        )
    return piece


MAX_UPLOADS, MAX_PARTS = 4000, 10_000
OWNER_DIVISOR = 4
"""One owner may use a quarter of the space and of the number of uploads."""
EMPTY_UPLOAD_SECONDS = 60.0
"""An upload without any part reserves its space for this long."""
MAX_LISTED_PARTS = 20
"""Limit of missing parts in an error message."""

Owner: TypeAlias = tuple[int, str | None]
"""Account id and API key of the caller; other callers get UploadNotFound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    folder: Path
    max_file_bytes: int = 100 << 20
    total_bytes: int = 1000 << 20
    """Limit for all uploads together; an upload reserves its total size from the start."""
    ttl_s: float = 600.0

    @property
    def capacity_bytes(self) -> int:
        return max(self.total_bytes, self.max_file_bytes)

    @property
    def owner_capacity_bytes(self) -> int:
        return min(max(self.capacity_bytes // OWNER_DIVISOR, 2 * self.max_file_bytes), self.capacity_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadDetails:
    """The arguments of kb_upload_start."""

    filename: str
    total_size: int
    collection: str
    tags: tuple[str, ...] = ()
    title: str | None = None
    source_path: str | None = None


@dataclass(slots=True, kw_only=True)
class StagedUpload:
    owner: Owner
    details: UploadDetails
    deadline: float
    empty_until: float
    """End of the space reservation while no part has arrived, in seconds of the clock."""
    uid: UUID = field(default_factory=new_uid)
    job_uid: UUID = field(default_factory=new_uid)
    """Idempotency key: finishing an upload twice creates one job."""
    parts: dict[int, int] = field(default_factory=dict)
    """Size in bytes of each stored part, by index."""
    answer: Json | None = None
    """The answer of kb_upload_finish; the parts are deleted once it is set."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def received_bytes(self) -> int:
        return sum(self.parts.values())

    def reserves_space(self, now: float) -> bool:
        return self.answer is None and (bool(self.parts) or now < self.empty_until)


class StagedUploads:
    """The uploads of one server process; they are lost when it ends."""

    def __init__(self, limits: UploadLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._staging: Staging = StagingFolder(limits.folder)
        self._uploads: dict[UUID, StagedUpload] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Remove folders of dead processes at the start, expired uploads while running, and everything at the end."""
        await anyio.to_thread.run_sync(self._staging.remove_abandoned)
        async with anyio.create_task_group() as group:
            group.start_soon(self._remove_expired_forever)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
                self._uploads.clear()
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._staging.close)

    async def start(self, owner: Owner, details: UploadDetails) -> StagedUpload:
        await self.remove_expired()
        await self._check_capacity(owner, details.total_size)
        empty_until = self._clock() + EMPTY_UPLOAD_SECONDS
        upload = StagedUpload(owner=owner, details=details, deadline=self._next_deadline(), empty_until=empty_until)
        self._uploads[upload.uid] = upload
        return upload

    async def find(self, owner: Owner, uid: str) -> StagedUpload:
        try:
            upload = self._uploads.get(UUID(uid))
        except ValueError:
            upload = None
        if upload is None or upload.owner != owner or self._is_expired(upload):
            raise self._not_found_error(uid)
        return upload

    def _not_found_error(self, uid: str) -> UploadNotFound:
        return UploadNotFound(
            f"Upload '{uid[:80]}' not found",
            hint=f"It may have expired ({self.limits.ttl_s:g} s after its last part) or the server was restarted: "
            "start again with kb_upload_start.",
            upload_id=uid[:80],
        )

    async def store_part(self, upload: StagedUpload, index: int, data: str) -> None:
        """Store one part; a part that is sent again replaces the first."""
        async with upload.lock:
            await self._check_open(upload)
            if not upload.reserves_space(self._clock()):
                await self._check_capacity(upload.owner, upload.details.total_size, started=upload)
            free_bytes = upload.details.total_size - upload.received_bytes + upload.parts.get(index, 0)
            if len(data) // 4 * 3 - 2 > free_bytes:  # the smallest decoded size, checked before decoding
                raise _part_too_large_error(upload, index, free_bytes)
            piece = await anyio.to_thread.run_sync(decode_part, data, index)
            if len(piece) > free_bytes:
                raise _part_too_large_error(upload, index, free_bytes)
            with anyio.CancelScope(shield=True):  # the count must match the files on disk
                await anyio.to_thread.run_sync(self._staging.write_part, upload.uid, index, piece)
                upload.parts[index] = len(piece)
            await self.extend_deadline(upload)

    @asynccontextmanager
    async def open_content(self, upload: StagedUpload) -> AsyncIterator[Content | None]:
        """Lock an upload and yield the content of its file; None if the upload is already finished."""
        async with upload.lock:
            if upload.answer is not None:
                yield None
                return
            await self._check_open(upload)
            _check_complete(upload)
            yield Content(lambda: self._staging.read_parts(upload.uid, sorted(upload.parts)))
            await self.extend_deadline(upload)

    async def mark_finished(self, upload: StagedUpload, answer: Json) -> None:
        """Delete the parts and keep the answer for a repeated kb_upload_finish."""
        upload.answer, upload.parts = answer, {}
        await anyio.to_thread.run_sync(self._staging.remove_upload, upload.uid)

    async def extend_deadline(self, upload: StagedUpload) -> None:
        """Restart the deadline, so a client can finish again after the engine was unreachable."""
        upload.deadline = self._next_deadline()

    async def remove_expired(self) -> None:
        for upload in [upload for upload in await self._list_uploads() if self._is_expired(upload)]:
            self._uploads.pop(upload.uid, None)
            await anyio.to_thread.run_sync(self._staging.remove_upload, upload.uid)

    async def _exists(self, upload: StagedUpload) -> bool:
        return upload.uid in self._uploads

    async def _list_uploads(self) -> list[StagedUpload]:
        return list(self._uploads.values())

    async def _remove_expired_forever(self) -> None:
        while True:
            await anyio.sleep(min(max(self.limits.ttl_s / 10, 0.05), 30.0))
            try:
                await self.remove_expired()
            except KnowledgeError as error:  # the bucket of originals is away
                log.warning("expired uploads could not be removed: %s", error)

    def _is_expired(self, upload: StagedUpload) -> bool:
        return self._clock() > upload.deadline and not upload.lock.locked()

    def _next_deadline(self) -> float:
        return self._clock() + self.limits.ttl_s

    async def _check_open(self, upload: StagedUpload) -> None:
        if upload.answer is not None:
            raise NotNow("The upload is already finished", hint="Start another upload with kb_upload_start.")
        if not await self._exists(upload):
            raise UploadNotFound(f"Upload '{upload.uid}' not found", upload_id=str(upload.uid))

    async def _check_capacity(self, owner: Owner, wanted: int, started: StagedUpload | None = None) -> None:
        """Raise an error if the upload exceeds the file size limit, the owner's quota or the total quota."""
        limits, now = self.limits, self._clock()
        if wanted > limits.max_file_bytes:
            maximum = limits.max_file_bytes
            raise TooLarge(f"total_size {wanted} exceeds the maximum file size of {maximum} bytes", max_bytes=maximum)
        others = [upload for upload in await self._list_uploads() if started is None or upload.uid != started.uid]
        own = [upload for upload in others if _account_of(upload.owner) == _account_of(owner)]
        for uploads, capacity, max_uploads, whose in (
            (own, limits.owner_capacity_bytes, MAX_UPLOADS // OWNER_DIVISOR, "your other uploads"),
            (others, limits.capacity_bytes, MAX_UPLOADS, "other uploads"),
        ):
            reserved = sum(upload.details.total_size for upload in uploads if upload.reserves_space(now))
            if reserved + wanted > capacity or len(uploads) >= max_uploads:
                raise NotNow(
                    f"Upload quota exceeded: {wanted} bytes requested, {len(uploads)} of {max_uploads} uploads and "
                    f"{reserved} of {capacity} bytes are in use by {whose}",
                    hint="Finish one of them, or try again when they have expired; KB_UPLOAD_TOTAL_MB sets the limit.",
                    reserved_bytes=reserved,
                    max_bytes=capacity,
                )


def _account_of(owner: Owner) -> Owner:
    """Return the owner that a quota is counted for: the account, or the key if only a remote engine knows it."""
    return owner if owner[0] == LOCAL_OWNER else (owner[0], None)


def _part_too_large_error(upload: StagedUpload, index: int, free_bytes: int) -> InvalidParameter:
    return InvalidParameter(
        f"Part {index} is larger than the remaining {free_bytes} bytes of total_size {upload.details.total_size}",
        hint="Send the right part, or start again with the right total_size.",
        parameter="data",
        chunk_index=index,
        received_bytes=upload.received_bytes,
        total_size=upload.details.total_size,
    )


def _check_complete(upload: StagedUpload) -> None:
    """Raise NotNow if parts or bytes are missing."""
    total, received = upload.details.total_size, upload.received_bytes
    missing = sorted(set(range(max(upload.parts, default=0) + 1)) - set(upload.parts))
    if not missing and received == total:
        return
    if missing:
        named = ", ".join(str(index) for index in missing[:MAX_LISTED_PARTS])
        problem = f"Part {named} is missing" if len(missing) == 1 else f"{len(missing)} parts are missing: {named}"
    else:
        problem = f"{total - received} bytes are missing after part {max(upload.parts)}"
    listed: list[JsonValue] = [*missing[:MAX_LISTED_PARTS]]
    raise NotNow(
        f"{problem}; {received} of {total} bytes received",
        hint="Send the missing parts with kb_upload_chunk, then call kb_upload_finish again.",
        missing_chunks=listed,
        received_bytes=received,
        total_size=total,
    )
