"""Files on their way in, part by part: staged on disk, counted while they arrive, and gone when nobody goes on."""

from __future__ import annotations

import base64
import binascii
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import anyio
import anyio.to_thread
from filelock import FileLock, Timeout

from knowledge.errors import InvalidParameter, NotNow, StorageFailed, TooLarge, UploadNotFound
from knowledge.filesystem.file_modes import FILE_MODE, make_folder, private_opener
from knowledge.model import LOCAL_OWNER, Content, Json, JsonValue, new_uid

LOCK_SUFFIX = ".lock"


class StagingFolder:
    """Made when the first part arrives. Its lock tells other processes that somebody still needs it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own_folder = folder / secrets.token_hex(8)
        self._lock: FileLock | None = None
        self._open_lock = threading.Lock()

    def part_path(self, upload: UUID, index: int) -> Path:
        return self._own_folder / upload.hex / f"{index}.part"

    def write_part(self, upload: UUID, index: int, data: bytes) -> None:
        """Whole or not at all: a part that fails leaves the one before it."""
        target = self.part_path(upload, index)
        beside = target.with_suffix(".new")
        try:
            self._open()
            target.parent.mkdir(mode=0o700, exist_ok=True)
            with open(beside, "wb", opener=private_opener) as file:
                file.write(data)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageFailed(f"The part cannot be kept: {error.strerror or 'the disk refuses it'}") from error

    def remove_upload(self, upload: UUID) -> None:
        shutil.rmtree(self._own_folder / upload.hex, ignore_errors=True)

    def remove_abandoned(self) -> None:
        """Remove what processes that are gone have left."""
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
            # A lock file that merely exists would outlive a killed process; only a real lock will do.
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
    except (Timeout, OSError):  # its process lives, or it is not ours to touch
        return
    try:
        shutil.rmtree(lock_path.with_suffix(""), ignore_errors=True)
    finally:
        lock.release()
    lock_path.unlink(missing_ok=True)


def decode_part(data: str, index: int) -> bytes:
    """Strict base64: nothing is skipped, so nothing is lost unseen."""
    try:
        piece = base64.b64decode(data.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        piece = b""
    if not piece:
        raise InvalidParameter(
            f"Part {index} is not base64",
            hint="Encode the bytes in the standard alphabet, with padding and without line breaks.",
            parameter="data",
            chunk_index=index,
        )
    return piece


READ_CHUNK_BYTES = 1 << 20
MAX_UPLOADS, MAX_PARTS = 4000, 10_000
OWNER_DIVISOR = 4
"""Quota of one owner: one part in so many of the space and of the number of uploads."""
EMPTY_UPLOAD_SECONDS = 60.0
"""For so long room is kept for an upload of which nothing has arrived."""
MAX_LISTED_PARTS = 20
"""How many missing parts a refusal lists."""

Owner: TypeAlias = tuple[int, str | None]
"""Whose upload it is; to everybody else it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    folder: Path
    max_file_bytes: int = 100 << 20
    total_bytes: int = 1000 << 20
    """Of all uploads together; room for the whole file is kept from the start."""
    ttl_s: float = 600.0

    @property
    def capacity_bytes(self) -> int:
        return max(self.total_bytes, self.max_file_bytes)

    @property
    def owner_capacity_bytes(self) -> int:
        return min(max(self.capacity_bytes // OWNER_DIVISOR, 2 * self.max_file_bytes), self.capacity_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadDetails:
    """What was said at the start about the file that is to come."""

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
    """Until then room is kept for it although nothing has arrived."""
    uid: UUID = field(default_factory=new_uid)
    job_uid: UUID = field(default_factory=new_uid)
    """Idempotency key: finishing an upload twice creates one job."""
    parts: dict[int, int] = field(default_factory=dict)
    """The size of each part that is there."""
    answer: Json | None = None
    """What the finish was answered; the bytes are gone then."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def received_bytes(self) -> int:
        return sum(self.parts.values())

    def reserves_space(self, now: float) -> bool:
        return self.answer is None and (bool(self.parts) or now < self.empty_until)


class StagedUploads:
    """Every upload of one server. It dies with the process: a client that comes back later starts again."""

    def __init__(self, limits: UploadLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._staging = StagingFolder(limits.folder)
        self._uploads: dict[UUID, StagedUpload] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Clear what a dead process left, and then whatever is abandoned; nothing stays at the end."""
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
        self._check_capacity(owner, details.total_size)
        empty_until = self._clock() + EMPTY_UPLOAD_SECONDS
        upload = StagedUpload(owner=owner, details=details, deadline=self._next_deadline(), empty_until=empty_until)
        self._uploads[upload.uid] = upload
        return upload

    def find(self, owner: Owner, uid: str) -> StagedUpload:
        try:
            upload = self._uploads.get(UUID(uid))
        except ValueError:
            upload = None
        if upload is None or upload.owner != owner or self._is_expired(upload):
            raise UploadNotFound(
                f"Upload '{uid[:80]}' not found",
                hint=f"It may have expired ({self.limits.ttl_s:g} s after its last part) or the server was restarted: "
                "begin again with kb_upload_start.",
                upload_id=uid[:80],
            )
        return upload

    async def store_part(self, upload: StagedUpload, index: int, data: str) -> None:
        """Keep one part; the same part again takes the place of the first."""
        async with upload.lock:
            self._check_open(upload)
            if not upload.reserves_space(self._clock()):
                self._check_capacity(upload.owner, upload.details.total_size, started=upload)
            room = upload.details.total_size - upload.received_bytes + upload.parts.get(index, 0)
            if len(data) // 4 * 3 - 2 > room:
                raise _part_too_large_error(upload, index, room)
            piece = await anyio.to_thread.run_sync(decode_part, data, index)
            if len(piece) > room:
                raise _part_too_large_error(upload, index, room)
            with anyio.CancelScope(shield=True):  # what lies on disk and what is counted must not differ
                await anyio.to_thread.run_sync(self._staging.write_part, upload.uid, index, piece)
                upload.parts[index] = len(piece)
            upload.deadline = self._next_deadline()

    @asynccontextmanager
    async def open_content(self, upload: StagedUpload) -> AsyncIterator[Content | None]:
        """The file in its order, while nobody else can change it; None when it was handed on before."""
        async with upload.lock:
            if upload.answer is not None:
                yield None
                return
            self._check_open(upload)
            _check_complete(upload)
            yield Content(
                lambda: _read_chunks(self._staging.part_path(upload.uid, index) for index in sorted(upload.parts))
            )
            upload.deadline = self._next_deadline()

    async def mark_finished(self, upload: StagedUpload, answer: Json) -> None:
        """It has arrived: keep the answer for a client that asks again, and nothing else."""
        upload.answer, upload.parts = answer, {}
        await anyio.to_thread.run_sync(self._staging.remove_upload, upload.uid)

    def extend_deadline(self, upload: StagedUpload) -> None:
        """The engine was not there: whoever tries again has the whole time for it."""
        upload.deadline = self._next_deadline()

    async def remove_expired(self) -> None:
        for upload in [upload for upload in self._uploads.values() if self._is_expired(upload)]:
            self._uploads.pop(upload.uid, None)
            await anyio.to_thread.run_sync(self._staging.remove_upload, upload.uid)

    async def _remove_expired_forever(self) -> None:
        while True:
            await anyio.sleep(min(max(self.limits.ttl_s / 10, 0.05), 30.0))
            await self.remove_expired()

    def _is_expired(self, upload: StagedUpload) -> bool:
        return self._clock() > upload.deadline and not upload.lock.locked()

    def _next_deadline(self) -> float:
        return self._clock() + self.limits.ttl_s

    def _check_open(self, upload: StagedUpload) -> None:
        if upload.answer is not None:
            raise NotNow("The upload is finished", hint="Begin another with kb_upload_start.")
        if upload.uid not in self._uploads:
            raise UploadNotFound(f"Upload '{upload.uid}' not found", upload_id=str(upload.uid))

    def _check_capacity(self, owner: Owner, wanted: int, started: StagedUpload | None = None) -> None:
        """Refuse what would not fit: into a file, into the room of all uploads, into the share of one owner."""
        limits, now = self.limits, self._clock()
        if wanted > limits.max_file_bytes:
            most = limits.max_file_bytes
            raise TooLarge(f"{wanted} bytes are more than the {most} that a file may have", max_bytes=most)
        others = [upload for upload in self._uploads.values() if upload is not started]
        own = [upload for upload in others if _account_of(upload.owner) == _account_of(owner)]
        for uploads, room, most, whose in (
            (own, limits.owner_capacity_bytes, MAX_UPLOADS // OWNER_DIVISOR, "your other uploads"),
            (others, limits.capacity_bytes, MAX_UPLOADS, "other uploads"),
        ):
            reserved = sum(upload.details.total_size for upload in uploads if upload.reserves_space(now))
            if reserved + wanted > room or len(uploads) >= most:
                raise NotNow(
                    f"There is no room for {wanted} more bytes: {len(uploads)} of {most} uploads and {reserved} of "
                    f"{room} bytes are taken by {whose}",
                    hint="Finish one of them, or try again when they have expired; KB_UPLOAD_TOTAL_MB sets the limit.",
                    reserved_bytes=reserved,
                    max_bytes=room,
                )


def _account_of(owner: Owner) -> Owner:
    """All keys of an account share its room; one that only an engine elsewhere knows has room of its own."""
    return owner if owner[0] == LOCAL_OWNER else (owner[0], None)


def _part_too_large_error(upload: StagedUpload, index: int, free_bytes: int) -> InvalidParameter:
    return InvalidParameter(
        f"Part {index} is larger than the {free_bytes} bytes that are left of total_size {upload.details.total_size}",
        hint="Send the right part, or begin again with the right total_size.",
        parameter="data",
        chunk_index=index,
        received_bytes=upload.received_bytes,
        total_size=upload.details.total_size,
    )


def _check_complete(upload: StagedUpload) -> None:
    """Refuse holes and missing ends, by name."""
    total, received = upload.details.total_size, upload.received_bytes
    missing = sorted(set(range(max(upload.parts, default=0) + 1)) - set(upload.parts))
    if not missing and received == total:
        return
    if missing:
        named = ", ".join(str(index) for index in missing[:MAX_LISTED_PARTS])
        what = f"Part {named} is missing" if len(missing) == 1 else f"{len(missing)} parts are missing: {named}"
    else:
        what = f"{total - received} bytes are missing after part {max(upload.parts)}"
    listed: list[JsonValue] = [*missing[:MAX_LISTED_PARTS]]
    raise NotNow(
        f"{what}; {received} of {total} bytes are there",
        hint="Send what is missing with kb_upload_chunk, then call kb_upload_finish again.",
        missing_chunks=listed,
        received_bytes=received,
        total_size=total,
    )


async def _read_chunks(paths: Iterable[Path]) -> AsyncIterator[bytes]:
    try:
        for path in paths:
            async with await anyio.open_file(path, "rb") as file:
                while piece := await file.read(READ_CHUNK_BYTES):
                    yield piece
    except OSError as error:
        raise StorageFailed("A staged part cannot be read", hint="Begin again with kb_upload_start.") from error
