"""The words of a page with their boxes as bytes: sent by a child, and stored for pages that OCR has read.

A header with size, source and count; four unsigned 16-bit shares of the page per word; the texts, separated by line
ends; all compressed with zlib, whose checksum shows damage.
"""

from __future__ import annotations

import array
import math
import struct
import sys
import zlib
from collections.abc import Sequence

from knowledge.model.pages import Box, PageWord, PageWords, WordSource

HEADER = struct.Struct("<BBddI")
FORMAT_VERSION = 1
SCALE = 65535
MAX_WORDS = 60_000
MAX_WORD_CHARS = 200
MAX_UNPACKED_BYTES = 16 << 20
SOURCES = (WordSource.NONE, WordSource.TEXT, WordSource.OCR)


def pack_words(found: PageWords) -> bytes:
    words = found.words[:MAX_WORDS]
    shares = array.array("H", (round(share * SCALE) for word in words for share in word.box))
    if sys.byteorder == "big":
        shares.byteswap()
    texts = "\n".join("".join(word.text.split())[:MAX_WORD_CHARS] for word in words).encode("utf-8", "replace")
    header = HEADER.pack(FORMAT_VERSION, SOURCES.index(found.source), found.width, found.height, len(words))
    return zlib.compress(header + shares.tobytes() + texts, 6)


def unpack_words(data: bytes, page: int) -> PageWords:
    """Return the words of a page; raises ValueError for bytes that `pack_words` has not made."""
    reader = zlib.decompressobj()
    try:
        plain = reader.decompress(data, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise ValueError(f"the words of page {page} are damaged: {error}") from error
    if not reader.eof or len(plain) < HEADER.size:
        raise ValueError(f"the words of page {page} are incomplete or too long")
    version, source, width, height, count = HEADER.unpack_from(plain)
    start, stop = HEADER.size, HEADER.size + 8 * count
    if version != FORMAT_VERSION or source >= len(SOURCES) or count > MAX_WORDS or len(plain) < stop:
        raise ValueError(f"the words of page {page} have another format")
    if not all(math.isfinite(size) and size >= 0 for size in (width, height)):
        raise ValueError(f"page {page} has no size")
    shares = array.array("H", plain[start:stop])
    if sys.byteorder == "big":
        shares.byteswap()
    texts = plain[stop:].decode("utf-8").split("\n") if count else []
    if len(texts) != count:
        raise ValueError(f"page {page} has {len(texts)} words instead of {count}")
    return PageWords(page, width, height, tuple(map(PageWord, texts, _to_boxes(shares))), SOURCES[source])


def _to_boxes(shares: Sequence[int]) -> list[Box]:
    values = [round(share / SCALE, 5) for share in shares]
    return list(zip(values[::4], values[1::4], values[2::4], values[3::4], strict=True))


def clamp_box(left: float, top: float, right: float, bottom: float) -> Box:
    """Return a box within the page, with its edges in order."""
    x0, x1 = sorted(min(1.0, max(0.0, value)) for value in (left, right))
    y0, y1 = sorted(min(1.0, max(0.0, value)) for value in (top, bottom))
    return x0, y0, x1, y1
