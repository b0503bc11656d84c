"""Guesses the single-byte code page of a text: chardet ranks them, the plausibility of the words decides.

Weights and measurements: docs/decisions/0012.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chardet import DetectionDict

CODE_PAGE_WEIGHTS = {
    "cp1252": 1.0,
    "iso8859-15": 0.999,
    "cp1250": 0.95,
    "iso8859-2": 0.949,
    "cp1254": 1.0,
    "cp1257": 0.97,
    "cp1258": 0.95,
    "cp1251": 1.0,
    "koi8-r": 1.0,
    "koi8-u": 1.0,
    "iso8859-5": 0.97,
    "cp866": 0.95,
    "cp1253": 1.0,
    "iso8859-7": 0.999,
    "cp1255": 1.0,
    "iso8859-8": 0.999,
    "cp1256": 1.0,
    "iso8859-6": 0.99,
    "cp874": 1.0,
    "cp850": 0.88,
    "cp437": 0.87,
    "cp852": 0.88,
    "mac-roman": 0.88,
}
"""Candidates, each with the weight that decides between nearly equal scores.

ISO 8859-1 and 8859-9 are missing because cp1252 and cp1254 decode the same bytes to the same text."""
WESTERN_ALPHABETS = {
    "ca": "àçèéíïòóúü",
    "da": "åæøé",
    "de": "äöüßé",
    "en": "çèéêïñö",
    "es": "áéíñóúü",
    "et": "äõöüšž",
    "fi": "äåö",
    "fr": "àâæçèéêëîïôùûüÿœ",
    "is": "áæéíðóöúýþ",
    "it": "àèéìíîòùú",
    "nl": "áèéêëïóöü",
    "no": "åæøéòô",
    "pt": "àáâãçéêíóôõúü",
    "sv": "åäöé",
}
CENTRAL_EUROPEAN_ALPHABETS = {
    "cs": "áčďéěíňóřšťúůýž",
    "de": "äöüßé",
    "hr": "čćđšž",
    "hu": "áéíóöőúüű",
    "pl": "ąćęłńóśźż",
    "ro": "ăâîşţ",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "sl": "čšž",
    "sq": "çë",
}
BALTIC_ALPHABETS = {"et": "äõöüšž", "lt": "ąčęėįšųūž", "lv": "āčēģīķļņšūž"}
ALPHABETS = {
    "cp1252": WESTERN_ALPHABETS,
    "iso8859-15": WESTERN_ALPHABETS,
    "cp1250": CENTRAL_EUROPEAN_ALPHABETS,
    "iso8859-2": CENTRAL_EUROPEAN_ALPHABETS,
    "cp1254": {"tr": "çğıöşüâîû"},
    "cp1257": BALTIC_ALPHABETS,
    "cp850": WESTERN_ALPHABETS,
    "cp437": WESTERN_ALPHABETS,
    "cp852": CENTRAL_EUROPEAN_ALPHABETS,
    "mac-roman": WESTERN_ALPHABETS,
}
"""Non-ASCII letters of the languages that each Latin page was designed for."""
RARE_LANGUAGE_WEIGHTS = {
    "is": 0.93,
    "br": 0.85,
    "cy": 0.9,
    "eo": 0.9,
    "ga": 0.9,
    "gd": 0.9,
    "id": 0.9,
    "ms": 0.9,
    "mt": 0.9,
}
"""Rare languages, for which a narrow win of chardet is usually wrong."""
CASED_NON_LATIN_PAGES = ("cp1251", "koi8-r", "koi8-u", "iso8859-5", "cp866", "cp1253", "iso8859-7")
"""Pages of Cyrillic and Greek: scripts with capitals and without ASCII letters."""
CAPITALS_WEIGHT = 0.9
SAMPLE_CHARS = 2_000
MIN_SCORE = 0.003
"""Added to chardet's confidence, which is near 0 for a text with few non-ASCII letters."""
MAX_WORD_BYTES = 64
MAX_JUDGED_BYTES = 4_000
BYTE_WORDS = re.compile(rb"[A-Za-z'\x80-\xff]+")
WORDS = re.compile("[^ \xa0\u2010-\u2015\u2026]+")
WORD_INNER_SIGNS = frozenset("'’·\xad\u200c\u200d\u200e\u200f")
DETACHED_SIGNS = frozenset("¦¨¯´¶¸¼½¾ˇ˘˙˛˝÷×¬")
"""Signs that never touch a word; in other pages their bytes are letters."""


def guess_code_page(sample: bytes) -> str:
    """Return the Python name of the code page, cp1252 by default."""
    foreign, latin_words = _split_words(sample)
    ranking = [*_rank_code_pages(sample), *_rank_code_pages_in_capitals(sample)]
    best, best_score = "cp1252", 0.0
    for score, page, language in sorted(map(_weigh_result, ranking), reverse=True):
        if score <= best_score:  # the word check only lowers scores, so no later candidate can win
            break
        text = foreign.decode(page, errors="replace")
        likely = (1 - measure_fault_share(text, latin_words)) * measure_alphabet_share(text, page, language)
        if score * likely**2 > best_score:
            best, best_score = page, score * likely**2
    return best


def _rank_code_pages(sample: bytes) -> list[DetectionDict]:
    import chardet

    return chardet.detect_all(
        sample,
        ignore_threshold=True,
        max_bytes=len(sample),
        compat_names=False,
        include_encodings=tuple(CODE_PAGE_WEIGHTS),
    )


def _rank_code_pages_in_capitals(sample: bytes) -> Iterator[DetectionDict]:
    """Rank the pages that make this an upper-case text by its lower-case form, which chardet recognises better."""
    for page in CASED_NON_LATIN_PAGES:
        text = sample.decode(page, errors="replace")
        letters = [letter for letter in text[:SAMPLE_CHARS] if letter > "\x7f" and letter.isalpha()]
        if letters and sum(map(str.isupper, letters)) > 0.8 * len(letters):
            small = _rank_code_pages(text.lower().encode(page, errors="replace"))
            for result in small:
                if result["encoding"] == page:
                    yield {**result, "confidence": CAPITALS_WEIGHT * result["confidence"]}


def _weigh_result(result: DetectionDict) -> tuple[float, str, str]:
    page, language = str(result["encoding"]), str(result["language"])
    confidence = result["confidence"] + MIN_SCORE
    return confidence * CODE_PAGE_WEIGHTS.get(page, 0.0) * RARE_LANGUAGE_WEIGHTS.get(language, 1.0), page, language


def is_better_in_code_page(sample: bytes, rival: str) -> bool:
    """Whether chardet prefers a code page to a double-byte encoding and the page yields plausible words."""
    import chardet

    best = chardet.detect(
        sample,
        max_bytes=len(sample),
        compat_names=False,
        include_encodings=(*CODE_PAGE_WEIGHTS, rival),
        no_match_encoding=rival,
    )
    page = str(best["encoding"])
    foreign, latin_words = _split_words(sample)
    return page in CODE_PAGE_WEIGHTS and measure_fault_share(foreign.decode(page, errors="replace"), latin_words) < 0.1


def _split_words(sample: bytes) -> tuple[bytes, int]:
    """Return the first non-ASCII words, joined by spaces, and the number of ASCII words."""
    foreign, size, latin_words = [], 0, 0
    for word in BYTE_WORDS.findall(sample):
        if word.isascii():
            latin_words += len(word) > 1
        elif size < MAX_JUDGED_BYTES:
            foreign.append(word[:MAX_WORD_BYTES])
            size += len(foreign[-1]) + 1
    return b" ".join(foreign), latin_words


def measure_fault_share(text: str, latin_words: int) -> float:
    """Return the share of non-ASCII words that are implausible, as in a wrong code page."""
    verdicts = [_judge_word(word) for word in WORDS.findall(text) if not word.isascii()]
    faults, good, alone = (verdicts.count(verdict) for verdict in ("fault", "good", "alone"))
    if latin_words > 3 * good:  # an "è" or "à" between Latin words, not a Cyrillic or Hebrew word of one letter
        faults += alone
    judged = len(verdicts) - verdicts.count("unknown")
    return faults / judged * 0.99 + 0.01 if faults else 0.0


def _judge_word(word: str) -> str:
    kinds = [_classify_letter(letter) for letter in word]
    if "none" in kinds or "¤" in word:  # ISO 8859-15 has the euro at the byte of the generic currency sign
        return "fault"
    start, end = 0, len(word)
    while start < end and kinds[start] in ("sign", "inside"):
        start += 1
    while end > start and kinds[end - 1] in ("sign", "inside"):
        end -= 1
    if start == end:
        return "unknown"
    if not DETACHED_SIGNS.isdisjoint(word[max(0, start - 1) : start] + word[end : end + 1]):
        return "fault"
    scripts = set(kinds[start:end]) - {"inside"}
    if len(scripts) > 1:  # two scripts, or a sign between letters
        return "fault"
    core = word[start:end].replace("ß", "ss")
    latin = scripts == {"LATIN"}
    if latin and len(core) > 3 and sum(letter > "\x7f" for letter in core) > 0.75 * len(core):
        return "fault"  # no Latin-script language accents nearly every letter
    if any(not part.isupper() and part[1:] != part[1:].lower() for part in APOSTROPHES.split(core)):
        return "unknown" if CAMEL_CASE.search(core) else "fault"
    return "alone" if len(core) == 1 and not latin else "good"


APOSTROPHES = re.compile("['’]")
CAMEL_CASE = re.compile("[a-z][A-Z]")


@lru_cache(maxsize=1024)
def _classify_letter(letter: str) -> str:
    """Return the script of a letter, "inside" for signs within words, "sign", or "none" for invalid characters."""
    category = unicodedata.category(letter)
    if letter in WORD_INNER_SIGNS:
        return "inside"
    if category[0] in "LM" and letter not in "ªºµˆ":
        script = unicodedata.name(letter, "?").split(" ")[0]
        return "inside" if script == "COMBINING" else script
    return "none" if category in ("Cc", "Cn", "Co") or letter == "\ufffd" else "sign"


def measure_alphabet_share(text: str, page: str, language: str) -> float:
    """Return the share of non-ASCII letters in the alphabet of chardet's language, or of the best one of the page."""
    alphabets = ALPHABETS.get(page)
    letters = [letter for letter in text.lower() if letter > "\x7f" and letter.isalpha() and letter not in "ªºµ"]
    if alphabets is None or not letters:
        return 1.0
    shares = {name: sum(map(alphabet.__contains__, letters)) / len(letters) for name, alphabet in alphabets.items()}
    return max(shares.get(language, 0.0), 0.97 * max(shares.values()))
