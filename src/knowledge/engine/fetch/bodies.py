"""Reads response bodies with byte limits and refuses decompression bombs."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterator

from knowledge.errors import FetchFailed, TooLarge

GZIP_WBITS, DEFLATE_WBITS = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS
DECOMPRESS_STEP_BYTES = 1 << 16
"""How much is unpacked at a time."""
MAX_COMPRESSION_RATIO = 200
"""A text packs to a hundredth at best; what unpacks to much more, and is large, is made to hurt."""
BOMB_CHECK_MIN_BYTES = 1 << 20


class ByteLimit:
    """The most bytes that a body may have."""

    def __init__(self, most: int, url: str) -> None:
        self.max_bytes, self._url, self.byte_count = most, url, 0

    def count(self, size: int) -> None:
        self.byte_count += size
        if self.byte_count > self.max_bytes:
            raise self.make_error()

    def make_error(self) -> TooLarge:
        return TooLarge(
            f"It is larger than {format_megabytes(self.max_bytes)} MB",
            hint="Raise KNOWLEDGE_CRAWL_MAX_PAGE_MB to take it in.",
            url=self._url,
            max_bytes=self.max_bytes,
        )


async def read_body(pieces: AsyncIterable[bytes], encoding: str, max_bytes: int, url: str) -> bytes:
    """The whole body, unpacked."""
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
        raise TooLarge("It unpacks to far more than it is", hint="", url=url, packed_bytes=packed)


class ContentDecoder:
    """gzip or deflate, a step at a time."""

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
                return  # what stands behind the end is nobody's business
            piece = self._unpack.unconsumed_tail

    def _decompress_step(self, piece: bytes) -> bytes:
        try:
            part = self._unpack.decompress(piece, DECOMPRESS_STEP_BYTES)
        except zlib.error as error:
            if self._gzip or self._has_output:
                raise FetchFailed("Its compression is broken", url=self._url) from error
            self._unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the wrapping out
            self._has_output = True
            return self._decompress_step(piece)
        self._has_output = True
        return part


def make_decoder(encoding: str, url: str) -> ContentDecoder | None:
    named = [part.strip().lower().removeprefix("x-") for part in encoding.split(",") if part.strip()]
    named = [part for part in named if part != "identity"]
    if not named:
        return None
    if len(named) > 1 or named[0] not in ("gzip", "deflate"):
        raise FetchFailed(f"It came compressed in a way that was not asked for: {encoding[:40]}", url=url)
    return ContentDecoder(named[0], url)


def gunzip(data: bytes, max_bytes: int, url: str) -> bytes:
    """A gzip file in memory, unpacked within bounds."""
    limit, parts = ByteLimit(max_bytes, url), []
    for part in ContentDecoder("gzip", url).feed(data):
        limit.count(len(part))
        parts.append(part)
    return b"".join(parts)


def format_megabytes(size: int) -> str:
    return f"{size / (1 << 20):g}"
