"""Originals in a bucket, by SHA-256; objects that are no longer needed are deleted by a sweep a day later.

docs/decisions/0043-originals-in-s3.md explains why a deletion and a server that adds the same bytes never meet.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from knowledge import failpoints
from knowledge.blobs.api import IsReferenced, RunLocked, StoredBlob
from knowledge.blobs.folder import MARKER_PREFIX, PREFIX_CHARS, READ_CHUNK_BYTES
from knowledge.blobs.incoming import IncomingFile, ReceivedFile, wrap_os_error
from knowledge.blobs.local_copies import LocalCopies
from knowledge.blobs.s3.bucket import Bucket
from knowledge.errors import OriginalsUnavailable, StorageFailed
from knowledge.filesystem import file_modes

log = logging.getLogger(__name__)

KEEP_SECONDS = 24 * 3600.0
"""How long an original stays in the bucket after it was last needed."""
LISTING_INTERVAL_SECONDS = 24 * 3600.0
"""Time between two looks at all objects, for those that a crash left without a row."""
LOCK_SECONDS = 5.0
"""A deletion is given up if it takes longer from its check: the lock may have been lost meanwhile."""
STORE_ATTEMPTS = 3
ORIGINAL_KEY = re.compile(r"([0-9a-f]{2})/\1[0-9a-f]{62}")


class UnreferencedOriginals(Protocol):
    """Since when originals are not needed, for all servers."""

    def mark(self, sha256: str, *, keep_earlier: bool = False) -> None:
        """Note that an original is not needed since now, or since an earlier time that is known."""
        ...

    def forget(self, sha256: str) -> None:
        """Note that an original is needed, or gone."""
        ...

    def is_marked(self, sha256: str, seconds: float = 0.0) -> bool:
        """Return whether an original is noted, since at least so many seconds."""
        ...

    def list_marked(self, seconds: float) -> list[str]:
        """Return the originals that are noted since at least so many seconds."""
        ...


class S3Blobs:
    def __init__(
        self,
        bucket: Bucket,
        data: Path,
        cache_bytes: int,
        run_locked: RunLocked,
        unreferenced: UnreferencedOriginals,
        *,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        self._bucket, self._run_locked, self._unreferenced = bucket, run_locked, unreferenced
        self._keep_seconds = keep_seconds
        self._incoming = data / "incoming"
        file_modes.make_folder(self._incoming)
        for path in self._incoming.iterdir():  # left behind by a crash: the data folder belongs to one process
            path.unlink(missing_ok=True)
        self._copies = LocalCopies(data / "originals-cache", cache_bytes)
        self._lock = threading.Lock()
        self._holders = 0
        self._listed_at = -LISTING_INTERVAL_SECONDS
        self.on_discard: Callable[[str], None] = lambda _: None
        self.check_place: Callable[[], None] | None = None
        """Runs before the first original is stored, if the bucket could not be checked when the server started."""

    @property
    def location(self) -> str:
        return str(self._bucket.url)

    @property
    def grace_seconds(self) -> float:
        return self._keep_seconds

    # -- storing --------------------------------------------------------------------------------

    def open_incoming(self, limit: int) -> IncomingFile:
        try:
            return IncomingFile(self._incoming / secrets.token_hex(16), limit)
        except OSError as error:
            raise wrap_os_error(error) from error

    @contextmanager
    def adopt_incoming(self, incoming: IncomingFile, is_referenced: IsReferenced) -> Iterator[ReceivedFile]:
        written = False
        try:
            received = incoming.finish()
            self._store(incoming.path, received)
            self._copies.adopt(received.sha256, incoming.path)
        except OSError as error:
            raise wrap_os_error(error) from error
        finally:
            incoming.discard()
        try:
            with self._copies.pin(received.sha256):
                failpoints.trigger("files.placed")
                yield received
            written = True
        finally:
            if not written:
                self.discard(received.sha256, is_referenced)

    def _store(self, path: Path, received: ReceivedFile) -> None:
        """Put a file into the bucket; an object that is there already is taken off the list of deletions."""
        check, self.check_place = self.check_place, None
        if check is not None:
            self._run_check(check)
        for _ in range(STORE_ATTEMPTS):
            # Looked up before the put: what is not marked at this moment cannot be deleted within a day of it.
            is_marked = self._unreferenced.is_marked(received.sha256)
            if self._bucket.put_file(make_key(received.sha256), path, received.sha256) or not is_marked:
                return
            if self._run_locked(received.sha256, lambda: self._keep_existing(received)):
                return
        raise OriginalsUnavailable(f"The original {received.sha256} could not be stored in {self.location}")

    def _run_check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except StorageFailed:
            self.check_place = check
            raise

    def _keep_existing(self, received: ReceivedFile) -> int:
        found = self._bucket.find(make_key(received.sha256))
        if found is None:  # deleted since the put was refused
            return 0
        self._unreferenced.forget(received.sha256)
        return 1

    # -- reading --------------------------------------------------------------------------------

    def find_size(self, sha256: str) -> int | None:
        found = self._bucket.find(make_key(sha256))
        return None if found is None else found.size

    def is_known_missing(self, sha256: str) -> bool:  # noqa: ARG002
        return False

    @contextmanager
    def open_local(self, sha256: str) -> Iterator[Path]:
        with self._copies.open(sha256, lambda target: self._download(sha256, target)) as path:
            yield path

    def _download(self, sha256: str, target: Path) -> None:
        digest = hashlib.sha256()
        with file_modes.open_new_file(target) as file:
            for piece in self._bucket.read(make_key(sha256)):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != sha256:
            raise StorageFailed(
                f"The original {sha256} in {self.location} is damaged: its SHA-256 does not match",
                hint="Restore an older version of the object, or add the same file again after deleting it.",
            )

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        with self._copies.pin(sha256) as path:
            if path is None:
                yield from self._bucket.read(make_key(sha256), start, stop)
                return
            with path.open("rb") as file:
                file.seek(start)
                left = path.stat().st_size - start if stop is None else stop - start
                while left > 0 and (piece := file.read(min(READ_CHUNK_BYTES, left))):
                    left -= len(piece)
                    yield piece

    def iterate(self) -> Iterator[StoredBlob]:
        for found in self._bucket.iterate(""):
            if found.key >= MARKER_PREFIX:  # in the order of their keys, markers and unfinished uploads come last
                return
            if ORIGINAL_KEY.fullmatch(found.key):
                yield StoredBlob(found.key.rpartition("/")[2], found.size, found.modified)

    # -- deleting -------------------------------------------------------------------------------

    def discard(self, sha256: str, is_referenced: IsReferenced) -> int:
        """Delete what is kept of an unreferenced original here, and let the sweep delete the object a day later."""
        if is_referenced(sha256):
            return 0
        self._unreferenced.mark(sha256)
        self._copies.forget(sha256)
        self.on_discard(sha256)
        return 0

    def forget_copies(self, is_referenced: IsReferenced) -> None:
        for sha256 in self._copies.list_all():
            if not is_referenced(sha256):
                self._copies.forget(sha256)

    @contextmanager
    def hold_deletions(self, is_referenced: IsReferenced) -> Iterator[None]:  # noqa: ARG002
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1

    def sweep_unreferenced(self, is_referenced: IsReferenced, older_than: float = 3600.0) -> int:  # noqa: ARG002
        self._mark_strays(is_referenced)
        due = self._unreferenced.list_marked(self._keep_seconds)
        return sum(self._run_locked(sha256, partial(self._delete_if_due, sha256, is_referenced)) for sha256 in due)

    def _mark_strays(self, is_referenced: IsReferenced) -> None:
        """Put old objects that no row refers to on the list of deletions, such as those of a crash before a commit."""
        if time.monotonic() - self._listed_at < LISTING_INTERVAL_SECONDS:
            return
        horizon = time.time() - self._keep_seconds
        for blob in self.iterate():
            if blob.modified <= horizon and not is_referenced(blob.sha256):
                self._unreferenced.mark(blob.sha256, keep_earlier=True)
        self._listed_at = time.monotonic()

    def _delete_if_due(self, sha256: str, is_referenced: IsReferenced) -> int:
        started = time.monotonic()
        with self._lock:
            if self._holders:
                return 0
        if is_referenced(sha256):
            self._unreferenced.forget(sha256)
            return 0
        found = self._bucket.find(make_key(sha256))
        if found is not None and found.age_seconds < self._keep_seconds:  # added anew after it was deleted
            return 0
        if not self._unreferenced.is_marked(sha256, self._keep_seconds):  # added again, or discarded again
            return 0
        if time.monotonic() - started > LOCK_SECONDS:
            log.warning("the deletion of %s took too long and is tried again with the next sweep", sha256)
            return 0
        if found is not None:
            self._bucket.delete(make_key(sha256))
        self._unreferenced.forget(sha256)
        return int(found is not None)

    def delete_everything(self) -> None:
        """Delete all objects of a place that only an estimate has used."""
        self._bucket.delete(*[found.key for found in self._bucket.iterate("")])

    # -- the place ------------------------------------------------------------------------------

    def find_issue(self) -> str | None:
        failure = self._bucket.find_failure()
        return None if failure is None else str(failure)

    def find_or_make_marker(self) -> str:
        """Return the id; two servers that start at the same time may make two, and the database keeps one."""
        found = [found.key for found in self._bucket.iterate(MARKER_PREFIX)]
        made = min(found).removeprefix(MARKER_PREFIX) if found else uuid.uuid4().hex
        self._bucket.put_bytes(f"{MARKER_PREFIX}{made}", b"")
        return made

    def has_marker(self, marker: str) -> bool:
        """Return whether the bucket has an id; writes it again, so that a bucket without permission is noticed."""
        if not any(found.key == f"{MARKER_PREFIX}{marker}" for found in self._bucket.iterate(MARKER_PREFIX)):
            return False
        self._bucket.put_bytes(f"{MARKER_PREFIX}{marker}", b"")
        return True


def make_key(sha256: str) -> str:
    return f"{sha256[:PREFIX_CHARS]}/{sha256}"
