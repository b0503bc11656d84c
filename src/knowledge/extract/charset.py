"""Which encoding a text is in, told by its bytes."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from knowledge.errors import Damaged
from knowledge.extract.base import Source

BLOCK = 64 << 10
SAMPLE = 128 << 10
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\x0c\x1b\x08\x1a"))
HIGH_RUNS = re.compile(rb"[\x80-\xff]+")
ONE_BYTE = ("cp1252", "cp1251", "koi8_u", "cp1253", "cp1255", "cp1256", "cp874", "iso8859_5", "cp866", "cp437")
ALPHABETS = {
    "cp1252": ("äöüßé", "éèêëàâçîïôûùœæ", "áéíóúñü", "ãõçáéíóúâêôà", "àèéìòù", "åäöæøé", "þðæöáéíóúý", "éëïóáèêöü"),
    "cp1250": ("ąćęłńóśźż", "áčďéěíňóřšťúůýžľĺŕôä", "áéíóöőúüű", "ăâîşţ", "čćđšž"),
    "iso8859_2": ("ąćęłńóśźż", "áčďéěíňóřšťúůýžľĺŕôä", "áéíóöőúüű", "ăâîşţ", "čćđšž"),
    "cp1254": ("çğıöşüâî",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "õäöüšž"),
}
"""The foreign letters of the languages that each encoding was made for."""
UNLIKELY = ("Cn", "Co", "Cs")
"""Unassigned, private, surrogate."""


def text_blocks(source: Source) -> Iterator[str]:
    """The text of a file, block by block, so that it never stands in memory as a whole."""
    decoder = codecs.getincrementaldecoder(detect(source))(errors="replace")
    with source.open() as file:
        while block := file.read(BLOCK):
            yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


def whole_text(source: Source) -> str:
    return "".join(text_blocks(source))


def decode(data: bytes) -> str:
    """A text that is small enough to be in memory already."""
    return data.decode(guess(data[:SAMPLE], whole=len(data) <= SAMPLE), errors="replace")


def detect(source: Source) -> str:
    head = source.read(SAMPLE)
    if not (_marked(head) or _sixteen(head) or _escaped(head)):
        if b"\0" in head or looks_binary(head):
            raise Damaged("It is named like a text but holds binary data", filename=source.filename)
        broken = _first_break(source)
        if broken is None:
            return "utf-8"
        head = _around(source, broken)
    return guess(head, whole=False)


def guess(sample: bytes, *, whole: bool = True) -> str:
    known = _marked(sample) or _sixteen(sample) or _escaped(sample) or _utf8(sample, whole)
    return known or _two_bytes(sample) or _one_byte(sample)


def looks_binary(sample: bytes) -> bool:
    sample = sample[:8192]
    return len(sample) - len(sample.translate(None, CONTROLS)) > len(sample) * 0.02


def _marked(sample: bytes) -> str | None:
    return next((name for mark, name in BOMS if sample.startswith(mark)), None)


def _sixteen(sample: bytes) -> str | None:
    """UTF-16 and UTF-32 without a mark show NULs at regular places where text is mostly Latin."""
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
    return next((name for name in candidates if _few_scripts(sample, name)), None)


def _few_scripts(sample: bytes, encoding: str) -> bool:
    """Read the wrong way round, a text would draw its letters from all over Unicode."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return False
    if not text or "\0" in text or any(unicodedata.category(letter) in UNLIKELY for letter in text):
        return False
    spaces = text.count(" ") + text.count("\n")
    blocks = Counter("han" if "\u3000" <= letter <= "\ud7ff" else ord(letter) >> 8 for letter in text)
    return spaces > 0 and sum(count for _, count in blocks.most_common(3)) > 0.95 * len(text)


def _utf8(sample: bytes, whole: bool) -> str | None:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=whole)
        return "utf-8"
    except UnicodeDecodeError:
        return None


def _first_break(source: Source) -> int | None:
    """Where the bytes stop being UTF-8; None when they never do."""
    decoder, position = codecs.getincrementaldecoder("utf-8")(), 0
    with source.open() as file:
        while block := file.read(BLOCK):
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                return position
            position += len(block)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None if position > BLOCK else 0  # the last character of a long file was cut off
    return None


def _around(source: Source, position: int) -> bytes:
    with source.open() as file:
        file.seek(position)
        return file.read(SAMPLE)


def _escaped(sample: bytes) -> str | None:
    return "iso2022_jp" if b"\x1b$B" in sample or b"\x1b$@" in sample else None


def _two_bytes(sample: bytes) -> str | None:
    """Japanese, Korean and Chinese: what the text would consist of tells which."""
    if _share(sample, "cp932", _japanese) > 0.95 and _share(sample, "cp932", _kana) > 0.05:
        return "cp932"
    runs = HIGH_RUNS.findall(sample)
    odd = sum(len(run) % 2 for run in runs)
    if odd > len(runs) * 0.1:  # Big5 and Shift-JIS also use ASCII as second bytes; the others do not
        if _share(sample, "cp932", _japanese) > 0.97:
            return "cp932"
        return "big5" if _share(sample, "big5", _han) * _usual(sample, "big5") > 0.7 else None
    if _share(sample, "euc_jp", _japanese) > 0.95 and _share(sample, "euc_jp", _kana) > 0.1:
        return "euc_jp"
    if _share(sample, "cp949", _hangul) > 0.9:
        return "cp949"
    chinese = {name: _share(sample, name, _han) * _usual(sample, name) for name in ("gb18030", "big5")}
    best = max(chinese, key=lambda name: chinese[name])
    if chinese[best] > 0.8:
        return best
    return "cp932" if _share(sample, "cp932", _japanese) > 0.97 else None


def _share(sample: bytes, encoding: str, wanted: re.Pattern[str]) -> float:
    """How much of what is not ASCII belongs to a script; 0 when the bytes are not in this encoding at all."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return 0.0
    foreign = re.sub("[\x00-\x7f]+", "", text)
    return len(wanted.findall(foreign)) / len(foreign) if foreign else 0.0


_japanese = re.compile("[\u3000-\u30ff\u4e00-\u9fff\uff01-\uff5e\u2010-\u2026]")
_kana = re.compile("[\u3040-\u30ff]")
_hangul = re.compile("[\uac00-\ud7a3\u3000-\u303f\uff01-\uff5e]")
_han = re.compile("[\u4e00-\u9fff\u3000-\u303f\uff01-\uff5e\u2010-\u2026]")
USUAL = {"gb18030": (0xA1, 0xD7), "big5": (0xA1, 0xC6)}
"""The first bytes of everyday characters; the rare ones follow after."""


def _usual(sample: bytes, encoding: str) -> float:
    low, high = USUAL[encoding]
    text = sample.decode(encoding, errors="ignore")
    first = [letter.encode(encoding)[0] for letter in text if ord(letter) > 127]
    return sum(low <= byte <= high for byte in first) / max(1, len(first))


def _one_byte(sample: bytes) -> str:
    if _hebrew(sample):
        return "cp1255"
    scores = {name: _plausible(sample, name) for name in ONE_BYTE}
    best = max(ONE_BYTE, key=lambda name: scores[name])
    if best != "cp1252" and scores[best] > scores["cp1252"] + 0.15:
        return best
    return _latin(sample)


def _hebrew(sample: bytes) -> bool:
    """Its letters look like small Russian ones, except that the last of those never turn up."""
    high = [byte for byte in sample if byte > 0x7F]
    return len(high) > 20 and sum(0xE0 <= byte <= 0xFA for byte in high) > 0.97 * len(high) and max(high) <= 0xFA


def _plausible(sample: bytes, encoding: str) -> float:
    """The share of words with foreign letters that look like words: one script, capitals only in front."""
    text = sample.decode(encoding, errors="replace")
    words = [word for word in re.findall(r"[^\x00-\x40\x5b-\x60\x7b-\x7f]+", text[:20000]) if not word.isascii()]
    if not words:
        return 0.0
    return sum(_like_a_word(word.strip("«»„“”‘’–—…§°©®·¿¡€")) for word in words) / len(words)


def _like_a_word(word: str) -> float:
    if not word:
        return 0.5
    if not all(unicodedata.category(letter)[0] in "LM" or letter in "’‘-–—…" for letter in word):
        return 0.0
    scripts = {_script(letter) for letter in word if letter.isalpha()}
    if len(scripts) > 1:
        return 0.0
    if scripts == {"LATIN"} and len(word) > 2 and sum(letter > "\x7f" for letter in word) > len(word) * 0.6:
        return 0.0  # no language that is written in Latin letters accents nearly all of them
    tail = word[1:]
    return 1.0 if tail == tail.lower() else 0.6 if word.isupper() else 0.0


def _script(letter: str) -> str:
    return unicodedata.name(letter, "?").split(" ")[0]


def _latin(sample: bytes) -> str:
    """Western, Central European, Turkish and Baltic: the foreign letters must all be those of one language."""
    foreign = {name: re.sub("[\\x00-\\xbf]+", "", sample.decode(name, errors="ignore").lower()) for name in ALPHABETS}
    scores = {name: max(_written(foreign[name], alphabet) for alphabet in ALPHABETS[name]) for name in ALPHABETS}
    best = max(ALPHABETS, key=lambda name: scores[name])
    return best if scores[best] > 0.5 else _by_frequency(sample)


def _written(foreign: str, alphabet: str) -> float:
    return sum(letter in alphabet for letter in foreign) / len(foreign) if foreign else 1.0


def _by_frequency(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(sample[:20000]).best()
    return str(best.encoding) if best is not None else "cp1252"
