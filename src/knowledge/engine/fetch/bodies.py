"""Reads response bodies with byte limits and refuses decompression bombs."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterator

from knowledge.errors import FetchFailed, TooLarge

GZIP_WBITS, DEFLATE_WBITS = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS
DECOMPRESS_STEP_BYTES = 1 << 16
# Text compresses to about a hundredth of its size, so a larger ratio in a large body is a decompression bomb.
MAX_COMPRESSION_RATIO = 200
BOMB_CHECK_MIN_BYTES = 1 << 20


class ByteLimit:
    """Counts the bytes of a body and raises TooLarge beyond `max_bytes`."""

    def __init__(self, max_bytes: int, url: str) -> None:
        self.max_bytes, self._url, self.byte_count = max_bytes, url, 0

    def count(self, size: int) -> None:
        self.byte_count += size
        if self.byte_count > self.max_bytes:
            raise self.make_error()

    def make_error(self) -> TooLarge:
        return TooLarge(
            f"The response body is larger than {format_megabytes(self.max_bytes)} MB",
            hint="Raise KNOWLEDGE_CRAWL_MAX_PAGE_MB to add this page.",
            url=self._url,
            max_bytes=self.max_bytes,
        )


async def read_body(pieces: AsyncIterable[bytes], encoding: str, max_bytes: int, url: str) -> bytes:
    """Return the whole body, decompressed."""
    packed, unpacked = ByteLimit(max_bytes, url), ByteLimit(max_bytes, url)
    decoder = make_decoder(encoding, url)
    body: list[bytes] = []
    async for piece in pieces:
        packed.count(len(piece))
        if decoder is None:
            body.append(piece)
            continue
        for part in decoder.feed(piece):
            unpacked.count(len(part))
            _refuse_decompression_bomb(packed.byte_count, unpacked, url)
            body.append(part)
    return b"".join(body)


def _refuse_decompression_bomb(packed: int, unpacked: ByteLimit, url: str) -> None:
    if unpacked.byte_count > BOMB_CHECK_MIN_BYTES and unpacked.byte_count > packed * MAX_COMPRESSION_RATIO:
        raise TooLarge(
            f"Decompressed size exceeds {MAX_COMPRESSION_RATIO} times the compressed size ({packed} bytes)",
            hint="The response looks like a decompression bomb and is not read.",
            url=url,
            packed_bytes=packed,
        )


class ContentDecoder:
    """Incremental decoder for gzip and deflate bodies."""

    def __init__(self, encoding: str, url: str) -> None:
        self._gzip, self._url = encoding == "gzip", url
        self._unpack = zlib.decompressobj(GZIP_WBITS if self._gzip else DEFLATE_WBITS)
        self._has_output = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            part = self._decompress_step(piece)
            if part:
                yield part
            if self._unpack.eof:
                return  # bytes after the end of the compressed stream are ignored
            piece = self._unpack.unconsumed_tail

    def _decompress_step(self, piece: bytes) -> bytes:
        try:
            part = self._unpack.decompress(piece, DECOMPRESS_STEP_BYTES)
        except zlib.error as error:
            if self._gzip or self._has_output:
                raise FetchFailed("The compressed response body is broken", url=self._url) from error
            self._unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send raw deflate without a zlib header
            self._has_output = True
            return self._decompress_step(piece)
        self._has_output = True
        return part


def make_decoder(encoding: str, url: str) -> ContentDecoder | None:
    names = [part.strip().lower().removeprefix("x-") for part in encoding.split(",") if part.strip()]
    names = [name for name in names if name != "identity"]
    if not names:
        return None
    if len(names) > 1 or names[0] not in ("gzip", "deflate"):
        raise FetchFailed(f"Unsupported Content-Encoding: {encoding[:40]}", url=url)
    return ContentDecoder(names[0], url)


def gunzip(data: bytes, max_bytes: int, url: str) -> bytes:
    """Decompress a gzip file in memory, up to `max_bytes`."""
    limit, parts = ByteLimit(max_bytes, url), []
    for part in ContentDecoder("gzip", url).feed(data):
        limit.count(len(part))
        parts.append(part)
    return b"".join(parts)


def format_megabytes(size: int) -> str:
    return f"{size / (1 << 20):g}"
