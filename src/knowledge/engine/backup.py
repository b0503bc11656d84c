"""Backup and restore as one tar file: a manifest, the database and the originals; the index is rebuilt.

The copy of the database and the originals pass the checks of `verify` before the first byte is sent.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import shutil
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.blobs.folder import READ_CHUNK_BYTES, FolderBlobs
from knowledge.blobs.incoming import digest_file
from knowledge.engine import verify
from knowledge.engine.cluster.originals import BACKUP_LEASE_PREFIX
from knowledge.errors import Damaged, KnowledgeError, NotNow, StorageFailed
from knowledge.filesystem import file_modes
from knowledge.model import Json, now
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.jobs import JobStore
from knowledge.version import __version__

DATABASE_MEMBER, FILES_FOLDER, MANIFEST_MEMBER = "knowledge.db", "files", "manifest.json"
PRODUCT = "knowledge-server backup"
BACKUP_COPY_PREFIX = "backup-"
"""File name prefix of the temporary database copies that a backup makes in the data folder."""
TAR_BLOCK_BYTES = tarfile.BLOCKSIZE
HOLD_SECONDS = 3600.0
"""Longer than copying the database takes."""
OLDER_BACKUP_HINT = "The backup itself is damaged: restore an older one."


class BackupArchive:
    """A backup as a stream of bytes; no original is deleted until it is closed."""

    def __init__(
        self,
        data: Path,
        database: Database,
        files: Blobs,
        documents: DocumentStore,
        jobs: JobStore,
        leases: LeaseStore | None,
        *,
        stop: Callable[[], bool],
    ) -> None:
        self._database, self._files, self._documents, self._jobs = database, files, documents, jobs
        self._stack = ExitStack()
        try:
            self._stack.enter_context(files.hold_deletions(documents.is_file_referenced))
            self._hold = None if leases is None else self._stack.enter_context(HeldOriginals(leases))
            self._members = list(self._list_members(data / f"{BACKUP_COPY_PREFIX}{secrets.token_hex(8)}.db", stop))
        except BaseException:
            self._stack.close()
            raise
        self.filename = f"knowledge-{now():%Y%m%d-%H%M%S}.tar"
        self.size = (
            sum(TAR_BLOCK_BYTES + _round_up_to_block(size) for _, _, size in self._members) + 2 * TAR_BLOCK_BYTES
        )
        self._pieces = self._read_members()

    def next_piece(self) -> bytes:
        """Return the next bytes; empty at the end."""
        if self._hold is not None:
            self._hold.renew()
        return next(self._pieces, b"")

    async def stream(self, run_in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> AsyncIterator[bytes]:
        """Yield the archive piece by piece, and close it."""
        try:
            while piece := await run_in_thread(self.next_piece):
                yield piece
        finally:
            await run_in_thread(self.close)

    def close(self) -> None:
        self._pieces.close()
        self._stack.close()

    def _list_members(self, copy: Path, stop: Callable[[], bool]) -> Iterator[tuple[str, Path | bytes | str, int]]:
        self._stack.callback(copy.unlink, missing_ok=True)
        referenced = self._list_originals()
        self._database.copy_to(copy)
        verify.require_undamaged(copy, self._files, "Nothing was backed up", stop=stop)
        referenced |= self._list_originals()  # documents added during the copy may be in it
        sizes = {sha256: self._files.find_size(sha256) for sha256 in sorted(referenced)}
        originals = [(sha256, size) for sha256, size in sizes.items() if size is not None]
        manifest = _make_manifest(copy, len(originals))
        yield MANIFEST_MEMBER, manifest, len(manifest)
        yield DATABASE_MEMBER, copy, copy.stat().st_size
        for sha256, size in originals:
            yield f"{FILES_FOLDER}/{sha256}", sha256, size

    def _list_originals(self) -> set[str]:
        """Return the originals of all documents and jobs."""
        return {*self._documents.list_originals(), *self._jobs.list_originals()}

    def _read_members(self) -> Generator[bytes]:
        for name, source, size in self._members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, 0o600
            yield info.tobuf(tarfile.USTAR_FORMAT)
            failpoints.trigger("backup.member")
            yield from _read_content(self._files, source, size)
            if padding := _round_up_to_block(size) - size:  # an empty piece would mean the end of the stream
                yield b"\0" * padding
        yield b"\0" * (2 * TAR_BLOCK_BYTES)


class HeldOriginals:
    """A lease under which other servers do not delete originals; it expires if this server ends."""

    def __init__(self, leases: LeaseStore) -> None:
        self._leases, self._name = leases, f"{BACKUP_LEASE_PREFIX}{leases.holder}"

    def __enter__(self) -> HeldOriginals:
        self._acquire()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(KnowledgeError):  # the database is away: the lease expires
            if self._token is not None:
                self._leases.release(self._name, self._token)

    def renew(self) -> None:
        """Renew the lease when a part of it has passed."""
        if time.monotonic() > self._renew_at:
            self._acquire()

    def _acquire(self) -> None:
        self._token = self._leases.acquire(self._name, HOLD_SECONDS)
        self._renew_at = time.monotonic() + HOLD_SECONDS / 6


def restore_backup(archive: BinaryIO, data: Path) -> Json:
    """Restore a backup into an empty data folder and return its manifest; if it fails, the folder stays empty."""
    if data.exists() and any(path.name != "engine.lock" for path in data.iterdir()):
        raise NotNow(
            f"The data folder {data} is not empty", hint="Choose an empty folder with --data, or move this one away."
        )
    try:
        with unpack_backup(archive, data) as (draft, manifest):
            file_modes.make_folder(data)
            for part in draft.iterdir():
                part.replace(data / part.name)
    except OSError as error:
        raise StorageFailed(f"The backup could not be restored to {data}: {error.strerror or error}") from error
    return manifest


@contextmanager
def unpack_backup(archive: BinaryIO, data: Path) -> Iterator[tuple[Path, Json]]:
    """Unpack and check a backup in a folder beside the data folder, which is deleted afterwards; with its manifest."""
    draft = data.with_name(f"{data.name}.restoring-{secrets.token_hex(4)}")
    file_modes.UMASK.enter()
    try:
        manifest = _extract_backup(archive, draft)
        verify.require_undamaged(
            draft / DATABASE_MEMBER, FolderBlobs(draft / FILES_FOLDER), "Nothing was restored", hint=OLDER_BACKUP_HINT
        )
        yield draft, manifest
    finally:
        file_modes.UMASK.leave()
        shutil.rmtree(draft, ignore_errors=True)


def _extract_backup(archive: BinaryIO, draft: Path) -> Json:
    manifest: Json | None = None
    file_modes.make_folder(draft)
    file_modes.make_folder(draft / FILES_FOLDER)
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    raise Damaged(f"The backup contains a member that is not a file: {member.name}")
                if member.name == MANIFEST_MEMBER:
                    manifest = json.loads(content.read(1 << 20))
                else:
                    _write_member(content, _resolve_member_path(member.name, draft), member.name)
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise Damaged(f"This is not a complete backup: {error}") from error
    if manifest is None or manifest.get("product") != PRODUCT or not (draft / DATABASE_MEMBER).exists():
        raise Damaged("This is not a Knowledge Server backup")
    if digest_file(draft / DATABASE_MEMBER) != manifest.get("database_sha256"):
        raise Damaged("The database in the backup is damaged")
    expected, found = manifest.get("originals"), sum(path.is_file() for path in (draft / FILES_FOLDER).rglob("*"))
    if expected is not None and expected != found:
        raise Damaged(f"This is not a complete backup: it has {found} originals instead of {expected}")
    return manifest


def check_archive(archive: BinaryIO) -> Json:
    """Read an archive to its end, compare all checksums with its manifest, and return that; raises Damaged."""
    manifest: Json = {}
    database, originals = None, 0
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    raise Damaged(f"The backup contains a member that is not a file: {member.name}")
                if member.name == MANIFEST_MEMBER:
                    manifest = json.loads(content.read(1 << 20))
                    continue
                assert isinstance(content, io.BufferedIOBase)
                digest = hashlib.file_digest(content, "sha256").hexdigest()
                if member.name == DATABASE_MEMBER:
                    database = digest
                elif member.name == f"{FILES_FOLDER}/{digest}":
                    originals += 1
                else:
                    raise Damaged(f"The original {member.name[:100]} in the backup is damaged")
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise Damaged(f"This is not a complete backup: {error}") from error
    if (manifest.get("product"), manifest.get("database_sha256"), manifest.get("originals")) != (
        PRODUCT,
        database,
        originals,
    ):
        raise Damaged("The backup does not match its manifest")
    return manifest


def _resolve_member_path(name: str, draft: Path) -> Path:
    """Return the path of a member; refuses path traversal: only the database or a SHA-256 below files/ is allowed."""
    if name == DATABASE_MEMBER:
        return draft / DATABASE_MEMBER
    folder, _, sha256 = name.partition("/")
    if folder != FILES_FOLDER or len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise Damaged(f"The backup contains an unexpected member: {name[:100]}")
    return draft / FILES_FOLDER / sha256[:2] / sha256


def _write_member(content: BinaryIO | object, target: Path, name: str) -> None:
    assert isinstance(content, io.BufferedIOBase)
    file_modes.make_folder(target.parent)
    with open(target, "wb", opener=file_modes.private_opener) as file:
        shutil.copyfileobj(content, file, READ_CHUNK_BYTES)
    if name != DATABASE_MEMBER and digest_file(target) != target.name:
        raise Damaged(f"The original {target.name} in the backup is damaged")


def _make_manifest(database: Path, originals: int) -> bytes:
    return json.dumps(
        {
            "product": PRODUCT,
            "version": __version__,
            "made_at": now().isoformat(),
            "database_sha256": digest_file(database),
            "originals": originals,
        }
    ).encode()


def _read_content(files: Blobs, source: Path | bytes | str, size: int) -> Iterator[bytes]:
    """Yield bytes from memory, a file, or the original with this SHA-256."""
    match source:
        case bytes():
            yield source
            return
        case str():
            name, pieces = source, files.read(source, 0, size)
        case _:
            name, pieces = source.name, _read_file(source, size)
    for piece in pieces:
        size -= len(piece)
        yield piece
    if size:
        raise StorageFailed(f"The file {name} was truncated during the backup")


def _read_file(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while size > 0 and (piece := file.read(min(READ_CHUNK_BYTES, size))):
            size -= len(piece)
            yield piece


def _round_up_to_block(size: int) -> int:
    return -(-size // TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES
