"""The protocol of the originals: a folder implements it, and an S3 bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from knowledge.blobs.incoming import IncomingFile, ReceivedFile

IsReferenced = Callable[[str], bool]
"""Returns whether a document or job needs the original with this SHA-256."""
RunLocked = Callable[[str, Callable[[], int]], int]
"""Runs work on one original while no other server can; it may run the work again after a failure."""


@dataclass(frozen=True, slots=True)
class StoredBlob:
    sha256: str
    size: int
    modified: float
    """Seconds since 1970 when it was stored, or added again."""


class Blobs(Protocol):
    """Originals by SHA-256. Blocking; methods that read raise FileNotFoundError if the original is missing."""

    on_discard: Callable[[str], None]
    """Called when an original is no longer needed, to delete what was derived from it."""

    @property
    def location(self) -> str:
        """The folder or bucket, for messages."""
        ...

    @property
    def grace_seconds(self) -> float:
        """Age up to which an unreferenced original may belong to a request in progress, here or on another server."""
        ...

    def open_incoming(self, limit: int) -> IncomingFile:
        """Open a local file for an upload of at most `limit` bytes."""
        ...

    def adopt_incoming(
        self, incoming: IncomingFile, is_referenced: IsReferenced
    ) -> AbstractContextManager[ReceivedFile]:
        """Store a finished upload and keep it while its row is written; discard it if that fails."""
        ...

    def find_size(self, sha256: str) -> int | None:
        """Return the size in bytes; None if the original is missing."""
        ...

    def is_known_missing(self, sha256: str) -> bool:
        """Return whether the original is missing, if that can be told without a request over the network."""
        ...

    def open_local(self, sha256: str) -> AbstractContextManager[Path]:
        """Yield the path of a local file with the original, which parsers need; it is kept until the block ends."""
        ...

    def read(self, sha256: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield the bytes from start to before stop, or to the end."""
        ...

    def discard(self, sha256: str, is_referenced: IsReferenced) -> int:
        """Give up an original that is not referenced, and return the bytes that this frees at once."""
        ...

    def sweep_unreferenced(self, is_referenced: IsReferenced, older_than: float = 3600.0) -> int:
        """Delete unreferenced originals and abandoned uploads; return their number."""
        ...

    def forget_copies(self, is_referenced: IsReferenced) -> None:
        """Delete local copies of originals that are not needed any more, such as those that another server removed."""
        ...

    def hold_deletions(self, is_referenced: IsReferenced) -> AbstractContextManager[None]:
        """Delete no original before the block ends."""
        ...

    def iterate(self) -> Iterator[StoredBlob]:
        """Yield all originals, in the order of their hashes."""
        ...

    def find_issue(self) -> str | None:
        """Return why originals cannot be stored, if so."""
        ...

    def find_or_make_marker(self) -> str:
        """Return the id that this place of originals has; the first call makes one."""
        ...

    def has_marker(self, marker: str) -> bool:
        """Return whether this place of originals has an id."""
        ...
