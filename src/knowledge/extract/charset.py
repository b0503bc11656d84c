"""Detects the encoding of a text: byte order mark, UTF-8, UTF-16, East Asian encodings, then code pages.

Why our rules and chardet share the work: docs/decisions/0012.
"""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from knowledge.errors import Damaged
from knowledge.extract.base import Source
from knowledge.extract.code_pages import guess_code_page, is_better_in_code_page

READ_BLOCK_BYTES = 64 << 10
SAMPLE_BYTES = 32 << 10
SHORT_TEXT_BYTES = 4 << 10
"""Shorter texts are examined as a whole; of longer ones, only the lines that are not ASCII."""
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\r\x0c\x1b\x08\x1a"))
HIGH_RUNS = re.compile(rb"[\x80-\xff]+")
UNLIKELY_CATEGORIES = ("Cn", "Co", "Cs")
"""Unicode general categories: unassigned, private use, surrogate."""


def read_text_blocks(source: Source) -> Iterator[str]:
    """Decode a file block by block, so that it is never in memory as a whole."""
    decoder = codecs.getincrementaldecoder(detect_encoding(source))(errors="replace")
    with source.open() as file:
        while block := file.read(READ_BLOCK_BYTES):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def read_text(source: Source) -> str:
    return "".join(read_text_blocks(source))


def decode_text(data: bytes) -> str:
    """Decode bytes that are already in memory."""
    head = data[:SAMPLE_BYTES]
    name = _find_bom_encoding(head) or _find_utf16_or_utf32(head) or _find_iso2022(head) or _find_utf8(data, whole=True)
    return data.decode(name or _guess_legacy_encoding(io.BytesIO(data)), errors="replace")


def detect_encoding(source: Source) -> str:
    head = source.read(SAMPLE_BYTES)
    name = _find_bom_encoding(head) or _find_utf16_or_utf32(head) or _find_iso2022(head)
    if name is not None:
        return name
    if b"\0" in head or looks_binary(head):
        raise Damaged("The file is named like a text file but contains binary data", filename=source.filename)
    if _is_utf8_file(source):
        return "utf-8"
    with source.open() as file:
        return _guess_legacy_encoding(file)


def guess_encoding(sample: bytes) -> str:
    known = (
        _find_bom_encoding(sample)
        or _find_utf16_or_utf32(sample)
        or _find_iso2022(sample)
        or _find_utf8(sample, whole=True)
    )
    return known or _find_cjk_encoding(sample) or guess_code_page(sample)


def _guess_legacy_encoding(file: BinaryIO) -> str:
    """Guess the encoding of a text that is not Unicode from a bounded number of lines that are not ASCII."""
    head = file.read(SHORT_TEXT_BYTES)
    if len(head) < SHORT_TEXT_BYTES:
        return _find_cjk_encoding(head) or guess_code_page(head)
    sample = b"\n".join(_read_non_ascii_lines(head, file))
    if head.isascii():  # its ASCII words help chardet to find the language
        sample = head + b"\n" + sample
    return _find_cjk_encoding(sample) or guess_code_page(sample)


def _read_non_ascii_lines(start: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield up to SAMPLE_BYTES of lines with non-ASCII bytes; an endless line is cut into blocks."""
    size, rest = 0, start
    while size < SAMPLE_BYTES and (block := file.read(READ_BLOCK_BYTES)):
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > READ_BLOCK_BYTES:
            lines, rest = [*lines, rest], b""
        for line in lines:
            if size < SAMPLE_BYTES and not line.isascii():
                yield line[:SAMPLE_BYTES]
                size += len(line)
    if size < SAMPLE_BYTES:
        yield rest


def looks_binary(sample: bytes) -> bool:
    sample = sample[:8192]
    return len(sample) - len(sample.translate(None, CONTROL_BYTES)) > len(sample) * 0.02


def _find_bom_encoding(sample: bytes) -> str | None:
    return next((name for mark, name in BOMS if sample.startswith(mark)), None)


def _find_utf16_or_utf32(sample: bytes) -> str | None:
    """Detect UTF-16 and UTF-32 without a byte order mark by the positions of NUL bytes."""
    sample = sample[:4096]
    if len(sample) < 4 or b"\0" not in sample:
        return None
    nulls = [sample[offset::4].count(0) / max(1, len(sample[offset::4])) for offset in range(4)]
    often = [share > 0.7 for share in nulls]
    shapes = {
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
    }
    name = shapes.get((often[0], often[1], often[2], often[3]))
    candidates = (name,) if name else ("utf-16-le", "utf-16-be")
    return next((name for name in candidates if _has_few_scripts(sample, name)), None)


def _has_few_scripts(sample: bytes, encoding: str) -> bool:
    """Check a candidate: with the wrong byte order, the characters would come from many Unicode blocks."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    if not text or "\0" in text or any(unicodedata.category(letter) in UNLIKELY_CATEGORIES for letter in text):
        return False
    spaces = text.count(" ") + text.count("\n")
    blocks = Counter("han" if "\u3000" <= letter <= "\ud7ff" else ord(letter) >> 8 for letter in text)
    return spaces > 0 and sum(count for _, count in blocks.most_common(3)) > 0.95 * len(text)


def _find_utf8(sample: bytes, whole: bool) -> str | None:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
        return "utf-8"
    except UnicodeDecodeError:
        return None


def _is_utf8_file(source: Source) -> bool:
    decoder, size = codecs.getincrementaldecoder("utf-8")(), 0
    with source.open() as file:
        try:
            while block := file.read(READ_BLOCK_BYTES):
                decoder.decode(block)
                size += len(block)
        except UnicodeDecodeError:
            return False
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return size > READ_BLOCK_BYTES  # the last character of a long file was cut off
    return True


def _find_iso2022(sample: bytes) -> str | None:
    return "iso2022_jp" if b"\x1b$B" in sample or b"\x1b$@" in sample else None


def _find_cjk_encoding(sample: bytes) -> str | None:
    """Detect Japanese, Korean and Chinese encodings by the script of the decoded text."""
    if _measure_script_share(sample, "cp932", JAPANESE) > 0.95 and _measure_script_share(sample, "cp932", KANA) > 0.05:
        return "cp932"
    if _measure_script_share(sample, "euc_jp", JAPANESE) > 0.95 and _measure_script_share(sample, "euc_jp", KANA) > 0.1:
        return "euc_jp"
    name = _find_cjk_encoding_without_kana(sample)
    return None if name is None or is_better_in_code_page(sample, name) else name


def _find_cjk_encoding_without_kana(sample: bytes) -> str | None:
    runs = HIGH_RUNS.findall(sample)
    odd = sum(len(run) % 2 for run in runs)
    if odd > len(runs) * 0.1:  # Big5 and Shift-JIS also use ASCII as second bytes; the others do not
        if _measure_script_share(sample, "cp932", JAPANESE) > 0.97:
            return "cp932"
        return (
            "big5" if _measure_script_share(sample, "big5", HAN) * _measure_common_share(sample, "big5") > 0.7 else None
        )
    if _measure_script_share(sample, "cp949", HANGUL) > 0.9:
        return "cp949"
    chinese = {
        name: _measure_script_share(sample, name, HAN) * _measure_common_share(sample, name)
        for name in ("gb18030", "big5")
    }
    best = max(chinese, key=lambda name: chinese[name])
    if chinese[best] > 0.8:
        return best
    return "cp932" if _measure_script_share(sample, "cp932", JAPANESE) > 0.97 else None


def _measure_script_share(sample: bytes, encoding: str, wanted: re.Pattern[str]) -> float:
    """Return the share of non-ASCII characters in the script, or 0 if the bytes do not decode."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    foreign = re.sub("[\x00-\x7f]+", "", text)
    if not foreign or _count_inside_latin_words(text, encoding) > 0.5 * len(foreign):
        return 0.0
    return len(wanted.findall(foreign)) / len(foreign)


SHORT_RUN = re.compile("(?<![^\x00-\x7f])[^\x00-\x7f]{1,3}(?![^\x00-\x7f])")


def _count_inside_latin_words(text: str, encoding: str) -> int:
    """Count characters that are probably an accented Latin letter and its successor read as one double byte."""
    count = 0
    for run in SHORT_RUN.finditer(text):
        around = text[max(0, run.start() - 1) : run.start()] + text[run.end() : run.end() + 1]
        if any(map(str.isalpha, around)) or run[0].encode(encoding)[-1:].isalpha():
            count += len(run[0])
    return count


JAPANESE = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5e\u2010-\u2026]")
KANA = re.compile("[\u3040-\u30ff]")
HANGUL = re.compile("[\uac00-\ud7a3\u3000-\u303f\uff01-\uff5e]")
HAN = re.compile("[\u4e00-\u9fff\u3000-\u303f\uff01-\uff5e\u2010-\u2026]")
COMMON_LEAD_BYTES = {"gb18030": (0xA1, 0xD7), "big5": (0xA1, 0xC6)}
"""Range of the lead bytes of frequent characters; rare characters have higher ones."""


def _measure_common_share(sample: bytes, encoding: str) -> float:
    low, high = COMMON_LEAD_BYTES[encoding]
    text = sample.decode(encoding, errors="ignore")
    first = [letter.encode(encoding)[0] for letter in text if ord(letter) > 127]
    return sum(low <= byte <= high for byte in first) / max(1, len(first))
