"""A backup is one tar file: what it is, the database, the originals. The index is left out: it is built anew.

The copy of the database and the originals are checked as `verify` checks them before the first byte is given out.
"""

from __future__ import annotations

import io
import json
import secrets
import shutil
import sqlite3
import tarfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from knowledge import __version__, failpoints
from knowledge.engine import verify
from knowledge.engine.runtime import BACKUP_COPY, Parts
from knowledge.errors import Damaged, NotNow, StorageFailed
from knowledge.model import Json, now
from knowledge.store import file_modes
from knowledge.store.database import storage_failed
from knowledge.store.files import PIECE, digest

DATABASE, FILES, MANIFEST = "knowledge.db", "files", "manifest.json"
PRODUCT = "knowledge-server backup"
BLOCK = tarfile.BLOCKSIZE
ANOTHER_BACKUP = "The backup itself holds the damage: restore an older one."


class Archive:
    """A backup on its way out, piece by piece. Nothing it needs is deleted until it is closed."""

    def __init__(self, parts: Parts) -> None:
        self._stack = ExitStack()
        try:
            self._stack.enter_context(parts.files.hold_all(parts.documents.names))
            self._members = list(self._gather(parts))
        except BaseException:
            self._stack.close()
            raise
        self.filename = f"knowledge-{now():%Y%m%d-%H%M%S}.tar"
        self.size = sum(BLOCK + _padded(size) for _, _, size in self._members) + 2 * BLOCK
        self._pieces = self._read()

    def next_piece(self) -> bytes:
        """The next bytes; none at the end."""
        return next(self._pieces, b"")

    def close(self) -> None:
        self._pieces.close()
        self._stack.close()

    def _gather(self, parts: Parts) -> Iterator[tuple[str, Path | bytes, int]]:
        copy = parts.options.data / f"{BACKUP_COPY}{secrets.token_hex(8)}.db"
        self._stack.callback(copy.unlink, missing_ok=True)
        named = _named(parts)
        try:
            parts.database.copy_to(copy)
        except sqlite3.Error as error:
            raise storage_failed(error) from error
        verify.require_whole(copy, parts.files.root, "Nothing was backed up", stop=lambda: parts.closing)
        named |= _named(parts)  # what was added while the copy was made may be in it
        originals = [path for path in map(parts.files.path, sorted(named)) if path.exists()]
        manifest = _manifest(copy, len(originals))
        yield MANIFEST, manifest, len(manifest)
        yield DATABASE, copy, copy.stat().st_size
        for path in originals:
            yield f"{FILES}/{path.name}", path, path.stat().st_size

    def _read(self) -> Generator[bytes]:
        for name, source, size in self._members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = size, 0o600
            yield info.tobuf(tarfile.USTAR_FORMAT)
            failpoints.reached("backup.member")
            yield from _content(source, size)
            if padding := _padded(size) - size:  # an empty piece would read as the end
                yield b"\0" * padding
        yield b"\0" * (2 * BLOCK)


def _named(parts: Parts) -> set[str]:
    """Every original that a document has or a job waits for."""
    return {*parts.documents.originals(), *parts.jobs.originals()}


def restore(archive: BinaryIO, data: Path) -> Json:
    """Lay a backup out in an empty data folder; answers its manifest. Nothing is left behind when it fails."""
    if data.exists() and any(path.name != "engine.lock" for path in data.iterdir()):
        raise NotNow(
            f"The data folder {data} is not empty", hint="Choose an empty one with --data, or move this one away."
        )
    draft = data.with_name(f"{data.name}.restoring-{secrets.token_hex(4)}")
    try:
        manifest = _lay_out(archive, draft)
        verify.require_whole(draft / DATABASE, draft / FILES, "Nothing was restored", hint=ANOTHER_BACKUP)
        file_modes.make_folder(data)
        for part in draft.iterdir():
            part.replace(data / part.name)
    except OSError as error:
        raise StorageFailed(f"The backup could not be laid out: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return manifest


def _lay_out(archive: BinaryIO, draft: Path) -> Json:
    manifest: Json | None = None
    file_modes.make_folder(draft)
    file_modes.make_folder(draft / FILES)
    try:
        with tarfile.open(fileobj=archive, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is None:
                    raise Damaged(f"The backup holds something that is not a file: {member.name}")
                if member.name == MANIFEST:
                    manifest = json.loads(content.read(1 << 20))
                else:
                    _put(content, _place(member.name, draft), member.name)
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise Damaged(f"This is not a complete backup: {error}") from error
    if manifest is None or manifest.get("product") != PRODUCT or not (draft / DATABASE).exists():
        raise Damaged("This is not a backup of this program")
    if digest(draft / DATABASE) != manifest.get("database_sha256"):
        raise Damaged("The database in the backup is damaged")
    said, laid_out = manifest.get("originals"), sum(path.is_file() for path in (draft / FILES).rglob("*"))
    if said is not None and said != laid_out:
        raise Damaged(f"This is not a complete backup: it holds {laid_out} originals instead of {said}")
    return manifest


def _place(name: str, draft: Path) -> Path:
    """Where a member belongs; no name can lead anywhere else."""
    if name == DATABASE:
        return draft / DATABASE
    folder, _, sha256 = name.partition("/")
    if folder != FILES or len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise Damaged(f"The backup holds something that does not belong there: {name[:100]}")
    return draft / FILES / sha256[:2] / sha256


def _put(content: BinaryIO | object, target: Path, name: str) -> None:
    assert isinstance(content, io.BufferedIOBase)
    file_modes.make_folder(target.parent)
    with open(target, "wb", opener=file_modes.private_opener) as file:
        shutil.copyfileobj(content, file, PIECE)
    if name != DATABASE and digest(target) != target.name:
        raise Damaged(f"The original {target.name} in the backup is damaged")


def _manifest(database: Path, originals: int) -> bytes:
    return json.dumps(
        {
            "product": PRODUCT,
            "version": __version__,
            "made_at": now().isoformat(),
            "database_sha256": digest(database),
            "originals": originals,
        }
    ).encode()


def _content(source: Path | bytes, size: int) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while size > 0 and (piece := file.read(min(PIECE, size))):
            size -= len(piece)
            yield piece
    if size:
        raise StorageFailed(f"The file {source.name} is shorter than it was a moment ago")


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
