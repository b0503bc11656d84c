"""Bodies within bounds: counted as they arrive and again as they unpack, so that no bomb goes off in memory."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable, Iterator

from knowledge.errors import FetchFailed, TooLarge

GZIP, RAW_OR_WRAPPED = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS
STEP = 1 << 16
"""How much is unpacked at a time."""
MOST_EXPANSION = 200
"""A text packs to a hundredth at best; what unpacks to much more, and is large, is made to hurt."""
SMALL = 1 << 20


class Limit:
    """The most bytes that a body may have."""

    def __init__(self, most: int, url: str) -> None:
        self.most, self._url, self.seen = most, url, 0

    def take(self, size: int) -> None:
        self.seen += size
        if self.seen > self.most:
            raise self.exceeded()

    def exceeded(self) -> TooLarge:
        return TooLarge(
            f"It is larger than {megabytes(self.most)} MB",
            hint="Raise KNOWLEDGE_CRAWL_MAX_PAGE_MB to take it in.",
            url=self._url,
            max_bytes=self.most,
        )


async def read_body(pieces: AsyncIterable[bytes], encoding: str, most: int, url: str) -> bytes:
    """The whole body, unpacked."""
    packed, unpacked = Limit(most, url), Limit(most, url)
    decoder = decoder_for(encoding, url)
    body: list[bytes] = []
    async for piece in pieces:
        packed.take(len(piece))
        if decoder is None:
            body.append(piece)
            continue
        for part in decoder.feed(piece):
            unpacked.take(len(part))
            _refuse_bomb(packed.seen, unpacked, url)
            body.append(part)
    return b"".join(body)


def _refuse_bomb(packed: int, unpacked: Limit, url: str) -> None:
    if unpacked.seen > SMALL and unpacked.seen > packed * MOST_EXPANSION:
        raise TooLarge("It unpacks to far more than it is", hint="", url=url, packed_bytes=packed)


class Decoder:
    """gzip or deflate, a step at a time."""

    def __init__(self, encoding: str, url: str) -> None:
        self._gzip, self._url = encoding == "gzip", url
        self._unpack = zlib.decompressobj(GZIP if self._gzip else RAW_OR_WRAPPED)
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            part = self._step(piece)
            if part:
                yield part
            if self._unpack.eof:
                return  # what stands behind the end is nobody's business
            piece = self._unpack.unconsumed_tail

    def _step(self, piece: bytes) -> bytes:
        try:
            part = self._unpack.decompress(piece, STEP)
        except zlib.error as error:
            if self._gzip or self._begun:
                raise FetchFailed("Its compression is broken", url=self._url) from error
            self._unpack = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers leave the wrapping out
            self._begun = True
            return self._step(piece)
        self._begun = True
        return part


def decoder_for(encoding: str, url: str) -> Decoder | None:
    named = [part.strip().lower().removeprefix("x-") for part in encoding.split(",") if part.strip()]
    named = [part for part in named if part != "identity"]
    if not named:
        return None
    if len(named) > 1 or named[0] not in ("gzip", "deflate"):
        raise FetchFailed(f"It came compressed in a way that was not asked for: {encoding[:40]}", url=url)
    return Decoder(named[0], url)


def gunzip(data: bytes, most: int, url: str) -> bytes:
    """A gzip file in memory, unpacked within bounds."""
    limit, parts = Limit(most, url), []
    for part in Decoder("gzip", url).feed(data):
        limit.take(len(part))
        parts.append(part)
    return b"".join(parts)


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):g}"
