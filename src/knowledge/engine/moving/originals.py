"""Copies originals from one place to another: only those that are missing, each checked by its SHA-256."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from knowledge import failpoints
from knowledge.blobs.api import Blobs
from knowledge.engine.moving.progress import MoveProgress, SilentProgress
from knowledge.errors import StorageFailed
from knowledge.store.database import Database
from knowledge.store.documents import DocumentStore
from knowledge.store.jobs.jobs import JobStore

PROBE_BYTES, PROBE_COUNT = 8 << 20, 20
"""Bytes and number of the originals that an estimate copies at most to measure the speed."""
DAMAGED_ORIGINAL_HINT = (
    "Run 'knowledge verify'; add the same file again or remove the document, then repeat the command."
)


@dataclass(frozen=True, slots=True)
class OriginalsToCopy:
    """SHA-256 and size of what is needed, and of what is not at the target yet."""

    needed: dict[str, int]
    missing: dict[str, int]

    @property
    def missing_bytes(self) -> int:
        return sum(self.missing.values())


def list_needed(database: Database, source: Blobs) -> dict[str, int]:
    """Return the size of every original that a document or an unfinished job needs; raises if one is missing."""
    documents = DocumentStore(database).list_originals()
    stored = {blob.sha256: blob.size for blob in source.iterate()}
    wrong = [sha256 for sha256, size in documents.items() if stored.get(sha256) != size]
    if wrong:
        raise StorageFailed(
            f"{len(wrong)} of {len(documents)} originals are missing or damaged in {source.location}, such as"
            f" {wrong[0]}",
            hint=DAMAGED_ORIGINAL_HINT,
        )
    of_jobs = {sha256: stored[sha256] for sha256 in JobStore(database).list_originals() if sha256 in stored}
    return documents | of_jobs


def compare_originals(needed: dict[str, int], target: Blobs) -> OriginalsToCopy:
    """Find what is missing at the target."""
    present = {blob.sha256: blob.size for blob in target.iterate()}
    missing = {sha256: size for sha256, size in needed.items() if present.get(sha256) != size}
    return OriginalsToCopy(needed, missing)


def copy_originals(todo: OriginalsToCopy, source: Blobs, target: Blobs, progress: MoveProgress) -> None:
    """Copy the missing originals; each is put into place when its SHA-256 is right."""
    progress.start("Copying originals", todo.missing_bytes, "bytes")
    for sha256, size in todo.missing.items():
        _copy_original(sha256, size, source, target, progress)
        failpoints.trigger("move.original")


def _copy_original(sha256: str, size: int, source: Blobs, target: Blobs, progress: MoveProgress) -> None:
    incoming = target.open_incoming(max(size, 1))
    try:
        for piece in source.read(sha256):
            incoming.write(piece)
            progress.advance(len(piece))
    except BaseException:
        incoming.discard()
        raise
    with target.adopt_incoming(incoming, lambda received: received == sha256) as received:
        if received.sha256 != sha256:
            raise StorageFailed(
                f"The original {sha256} in {source.location} is damaged: its SHA-256 does not match",
                hint=DAMAGED_ORIGINAL_HINT,
            )


def require_complete(needed: dict[str, int], target: Blobs) -> None:
    """Raise StorageFailed unless every original is at the target with its size."""
    missing = compare_originals(needed, target).missing
    if missing:
        raise StorageFailed(f"{len(missing)} originals have not arrived in {target.location}, such as {min(missing)}")


def estimate_seconds(todo: OriginalsToCopy, source: Blobs, scratch: Blobs) -> float:
    """Estimate the time by copying a few originals, spread over all, to a scratch place at the target."""
    sample = choose_sample(todo.missing)
    if not sample:
        return 0.0
    started = perf_counter()
    for sha256, size in sample.items():
        _copy_original(sha256, size, source, scratch, SilentProgress())
    # Small originals take as long as their number says, large ones as their bytes say.
    ratio = max(len(todo.missing) / len(sample), todo.missing_bytes / max(sum(sample.values()), 1))
    return (perf_counter() - started) * ratio


def choose_sample(missing: dict[str, int]) -> dict[str, int]:
    """Choose originals to measure the speed with: a few, spread over all, of a bounded size."""
    small = [sha256 for sha256, size in missing.items() if size <= PROBE_BYTES] or sorted(
        missing, key=missing.__getitem__
    )[:1]
    sample: dict[str, int] = {}
    for sha256 in small[:: max(1, len(small) // PROBE_COUNT)][:PROBE_COUNT]:
        sample[sha256] = missing[sha256]
        if sum(sample.values()) >= PROBE_BYTES:
            break
    return sample
