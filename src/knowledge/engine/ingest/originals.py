"""Opens originals for parsers, and streams them to callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from knowledge.blobs.api import Blobs
from knowledge.errors import StorageFailed
from knowledge.model import Document, JsonValue, Original

MISSING_HINT = "Add the same file again, or restore a backup; 'knowledge verify' lists all missing originals."

RunInThread = Callable[[Callable[[], bytes]], Awaitable[bytes]]


@contextmanager
def open_original(files: Blobs, sha256: str, owner: str = "this job", **details: JsonValue) -> Iterator[Path]:
    """Yield a local file with an original; raises StorageFailed that names its owner if it is missing."""
    with ExitStack() as stack:
        try:
            path = stack.enter_context(files.open_local(sha256))
        except FileNotFoundError as error:
            raise missing_original_error(owner, **details) from error
        yield path


async def stream_original(
    files: Blobs, document: Document, start: int, stop: int | None, run_in_thread: RunInThread
) -> Original:
    """Return the bytes from start to before stop; the first of them are read now, so that a failure is an error."""
    pieces = files.read(document.sha256, start, stop)
    try:
        first = await run_in_thread(lambda: next(pieces, b""))
    except FileNotFoundError as error:
        raise missing_original_error(f"document {document.id}", document_id=document.id) from error
    stream = _stream_pieces(first, pieces, run_in_thread)
    return Original(document.filename or document.title, document.size_bytes, stream, document.sha256)


async def _stream_pieces(piece: bytes, rest: Iterator[bytes], run_in_thread: RunInThread) -> AsyncIterator[bytes]:
    while piece:
        yield piece
        piece = await run_in_thread(lambda: next(rest, b""))


def missing_original_error(owner: str, **details: JsonValue) -> StorageFailed:
    return StorageFailed(f"The original of {owner} is missing", hint=MISSING_HINT, **details)
