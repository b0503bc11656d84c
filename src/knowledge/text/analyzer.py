"""Text into terms, for documents and for questions alike, so that every index behind `index/api.py` finds the same.

A word is folded (case, accents), stemmed by the language of its document, and cut where it is made of several:
`parseHTTPHeader` is found whole and by its parts. docs/explanation/search.md has the rules and their reasons.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import Stemmer

from knowledge.index.api import Words
from knowledge.text.scanning import compose, split_quoted
from knowledge.text.stop_words import STOP_WORDS

if TYPE_CHECKING:
    import gcld3

__all__ = ["STOP_WORDS", "language", "nearby", "question", "terms", "unsure"]

DEFAULT_LANGUAGE = "en"
LONGEST_TERM = 128
"""Longer ones are cut: keys and hashes stay findable, and nothing can swell the dictionary."""
MOST_TERMS = 256
"""How many different words of a question are asked for."""
_MOST_NUMBERS = 32
"""Numbers at the beginning of one token, as in 3.11'2.0'1.1, of which each is a term."""

# -- cutting ------------------------------------------------------------------------------------

# Python's \w leaves out the vowel signs that Indic and South-East Asian scripts write inside words.
_LETTER = (
    r"\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3\u200c\u200d"
)
_TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3}){1,40}+(?![\d,])"  # 1,000,000; a longer one would be looked at again from each of its parts
    r"|[A-Za-z](?:\+\+|#)(?![\w+#])"  # C++ and C#
    rf"|[{_LETTER}]+(?:[.\-'’][{_LETTER}]+)*"
)
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts whose words are not set apart by spaces, and Korean, whose words carry their particles with them."""
_RUN = re.compile(rf"([{_UNSPACED}]+)")
_NUMBER = re.compile(r"[vV]?(\d+(?:[.\-]\d+)+)(?!\d)")
_PIECE = re.compile(r"[._\-]+")
_CONTRACTIONS = frozenset(("t", "d", "m", "ll", "re", "ve"))
_PLAIN = re.compile(r"[a-z]+")
_WORD = re.compile(r"[^\W\d_]+")


def terms(text: str, language: str | None) -> list[str]:
    """The terms of a passage in reading order; single characters of unspaced scripts follow at the end."""
    code = language or DEFAULT_LANGUAGE
    found: list[str] = []
    singles: list[str] = []
    for token in _tokens(text):
        whole, single = _token_terms(token, code)
        found += whole
        singles += single
    # At the end, since between the pairs they would tear phrases apart.
    return found + singles


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text if text.isascii() else compose(text))


@lru_cache(maxsize=1 << 15)
def _token_terms(token: str, language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The terms of one token, and the single characters of its unspaced runs."""
    if _PLAIN.fullmatch(token):
        return (_stem(token, language)[:LONGEST_TERM],), ()
    found: list[str] = []
    singles: list[str] = []
    for piece in _RUN.split(token):
        if _RUN.match(piece):
            found += _pairs(piece)
            singles += piece if len(piece) > 1 else ""
        elif piece:
            found += (_normal(word, language) for word in dict.fromkeys(_words(piece)))
    return tuple(term for term in found if term), tuple(singles)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _words(token: str) -> Iterator[str]:
    """The words of one token, not yet folded: the whole first where it is one name, then its parts."""
    if token[-1] in "+#":
        yield token
    elif "," in token:
        yield token.replace(",", "")
    elif number := _NUMBER.match(token):
        yield from _words_behind_numbers(token, number)
    else:
        for word in _without_apostrophes(token):
            yield from _name_words(word)


def _words_behind_numbers(token: str, number: re.Match[str]) -> Iterator[str]:
    """The words of a token that begins with a number: the token, those of the rest, and those of the number."""
    numbers = [number[1]]
    while number.end() < len(token):
        yield token
        token = token[number.end() :].strip(".-'’_") or number[1]
        following = _NUMBER.match(token)
        if following is None or len(numbers) == _MOST_NUMBERS:
            yield from _words(token) if following is None else ()
            break
        number = following
        numbers.append(number[1])
    for one in reversed(numbers):
        yield from _number_words(one)


def _number_words(number: str) -> Iterator[str]:
    """A version or a date, whole and by what it begins with: 3.11.7 is a 3.11, 2024-05-01 is in 2024."""
    yield number
    ends = [found.start() for found in re.finditer(r"[.\-]", number)]
    yield from (number[:end] for end in reversed(ends[1:]) if end <= LONGEST_TERM)
    if ends[0] == 4:
        yield number[:4]
    if len(ends) == 1 and number[ends[0]] == "-":
        yield from number.split("-")


def _without_apostrophes(token: str) -> Iterator[str]:
    """don't is dont, the cat's is cat, l'homme is l and homme."""
    head, *tails = re.split("['’]", token)
    for tail in tails:
        if tail.lower() in _CONTRACTIONS:
            head += tail
        elif tail.lower() != "s":
            yield head
            head = tail
    yield head


def _name_words(word: str) -> Iterator[str]:
    """An identifier joined and in parts; a hyphened word in parts, and joined where a part is short or has digits."""
    pieces = [piece for piece in _PIECE.split(word) if piece]
    if len(pieces) > 1 and not (_only_hyphens(word) and all(len(p) > 1 and p.isalpha() for p in pieces)):
        yield "".join(pieces)
    for piece in pieces:
        if _is_plural_of_capitals(piece):  # a stemmer sees no vowel in "pdfs" and leaves it
            yield piece[:-1]
            continue
        yield piece
        parts = _case_parts(piece)
        if len(parts) > 1:
            yield from (part for part in parts if len(part) > 1)


def _only_hyphens(word: str) -> bool:
    return not any(mark in word for mark in "._")


def _case_parts(name: str) -> list[str]:
    """parseHTTPHeader in three, sha256 in two; Words and PDF stay whole."""
    if name.isalpha() and (name[1:].islower() or name.isupper()):
        return [name]
    parts: list[str] = []
    start = 0
    for at in range(1, len(name)):
        before, here, after = name[at - 1], name[at], name[at + 1 : at + 2]
        is_hump = here.isupper() and (before.islower() or (before.isupper() and after.islower()))
        if is_hump or here.isdigit() != before.isdigit():
            parts.append(name[start:at])
            start = at
    return [*parts, name[start:]]


def _is_plural_of_capitals(name: str) -> bool:
    return name[-1:] == "s" and len(name) > 2 and name[:-1].isupper()


# -- folding and stems --------------------------------------------------------------------------

_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_SCRIPTS = (
    ("\u0370", "\u03ff", "el", ("el",)),
    ("\u0400", "\u052f", "ru", ("ru", "sr")),
    ("\u0530", "\u058f", "hy", ("hy",)),
    ("\u0600", "\u06ff", "ar", ("ar",)),
    ("\u0900", "\u097f", "hi", ("hi", "ne")),
    ("\u0b80", "\u0bff", "ta", ("ta",)),
)
"""From, to, whose stems its words get, and the languages that bring their own."""
_NOT_LATIN = frozenset(code for *_, codes in _SCRIPTS for code in codes) - {"sr"}
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200c\u200d]+")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"})
_STEMMER_LOCK = threading.Lock()  # a Stemmer keeps state while it works


@cache
def _stemmer(code: str) -> Stemmer.Stemmer | None:
    name = _STEMMERS.get(code)
    return Stemmer.Stemmer(name, 0) if name in Stemmer.algorithms() else None


def _normal(word: str, language: str) -> str:
    folded = word[: 4 * LONGEST_TERM].casefold()
    has_digits = any(character.isdigit() for character in folded)
    return _fold(folded if has_digits else _stem(folded, language))[:LONGEST_TERM]


def _stem(word: str, language: str) -> str:
    stemmer = _stemmer(_stem_language(word, language))
    if stemmer is None:
        return word
    with _STEMMER_LOCK:
        return str(stemmer.stemWord(word))


def _stem_language(word: str, language: str) -> str:
    """The document's language for words in its own script, and the script's usual one for the others."""
    first = word[:1]
    if first < "\u0370":
        return DEFAULT_LANGUAGE if language in _NOT_LATIN else language
    for low, high, usual, own in _SCRIPTS:
        if low <= first <= high:
            return language if language in own else usual
    return ""


def _fold(word: str) -> str:
    """Without accents and vowel points; after stemming, since stemmers know their accents."""
    if word.isascii():
        return word
    plain = _MARKS.sub("", unicodedata.normalize("NFD", word.translate(_LETTERS)))
    return unicodedata.normalize("NFC", plain)


# -- questions ----------------------------------------------------------------------------------


def question(text: str, languages: Collection[str]) -> Words:
    """A question as terms, each in every form that documents of these languages may hold it."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    forms = [form for token in _asked_tokens(text, codes) for form in _forms(token, codes)]
    quoted, rest = split_quoted(text)
    phrases = tuple(found for phrase in quoted if (found := _phrase(phrase, codes)))
    return Words(terms=_capped(forms), phrases=phrases, exact=bool(phrases) and _says_nothing(rest, codes))


def _says_nothing(text: str, codes: tuple[str, ...]) -> bool:
    small = frozenset[str]().union(*(STOP_WORDS.get(code, ()) for code in codes))
    return all(token.casefold() in small for token in _tokens(text))


def _forms(token: str, codes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Each term of the token with its forms; the languages agree about where it is cut."""
    if len(codes) == 1:
        return [(term,) for term in _token_terms(token, codes[0])[0]]
    by_language = [_token_terms(token, code)[0] for code in codes]
    return [tuple(dict.fromkeys(forms)) for forms in zip(*by_language, strict=True)]


def _phrase(text: str, codes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    tokens = _tokens(text)
    found = (tuple(term for token in tokens for term in _token_terms(token, code)[0]) for code in codes)
    return tuple(dict.fromkeys(phrase for phrase in found if phrase))


@lru_cache(maxsize=64)  # a search asks twice
def _asked_tokens(text: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Without the small words of the one language that the question seems to be in, unless nothing else is left."""
    tokens = _tokens(text)
    plain = [token.replace("'", "").replace("’", "").casefold() for token in tokens]
    lists = [STOP_WORDS[code] for code in codes if code in STOP_WORDS]
    small = max(lists, key=lambda words: sum(word in words for word in plain), default=frozenset())
    return tuple(token for token, word in zip(tokens, plain, strict=True) if word not in small) or tuple(tokens)


# -- misspelt words -----------------------------------------------------------------------------

_SHORTEST_UNSURE, _LONGEST_UNSURE = 5, 32
"""Letters: nearly every shorter word has another one beside it, and a longer one is none."""
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "αβγδεζηθικλμνξοπρστυφχψως")


def unsure(text: str, languages: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The words of a question that may be misspelt, with the forms that `question` gives them: no names, no numbers, no
    short words, and none in quotation marks."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    words = (word for token in _asked_tokens(split_quoted(text)[1], codes) for word in token.split("-"))
    return {word: _forms(word, codes)[0] for word in words if _may_be_misspelt(word)}


def _may_be_misspelt(word: str) -> bool:
    if not _SHORTEST_UNSURE <= len(word) <= _LONGEST_UNSURE:
        return False
    return word.isalpha() and (word.islower() or word.istitle()) and not _RUN.search(word)


@lru_cache(maxsize=256)
def nearby(word: str, languages: tuple[str, ...]) -> dict[str, str]:
    """The terms of all words that are one letter away (two that changed places are one), each with its word."""
    typed = word.casefold()
    edits = [edit for edit in dict.fromkeys(_edits(typed)) if edit != typed]
    edits.reverse()  # of two with one stem, the likelier is kept
    stems = (_stems(edits, _stem_language(typed, code)) for code in languages or (DEFAULT_LANGUAGE,))
    return {_fold(stem): edit for found in stems for stem, edit in zip(found, edits, strict=True)}


def _stems(words: list[str], language: str) -> list[str]:
    stemmer = _stemmer(language)
    if stemmer is None:
        return words
    with _STEMMER_LOCK:
        return list(stemmer.stemWords(words))


def _edits(word: str) -> Iterator[str]:
    """What was most likely meant first."""
    letters = next((alphabet for alphabet in _ALPHABETS if any(letter in alphabet for letter in word)), "")
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1)
    yield from (head + letter + tail for head, tail in cuts for letter in letters)
    yield from (head + letter + tail[1:] for head, tail in cuts if tail for letter in letters)
    yield from (head + tail[1:] for head, tail in cuts if tail)


def _capped(forms: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    kept = frozenset(list(dict.fromkeys(forms))[:MOST_TERMS])
    return tuple(form for form in forms if form in kept)


# -- languages ----------------------------------------------------------------------------------

_SURE = 0.95
_FEWEST_LATIN_LETTERS, _FEWEST_LETTERS = 60, 12
"""Latin letters say less about a language than others do."""
_OTHER_CODES = {"iw": "he", "fil": "tl", "nb": "no", "nn": "no"}
_DETECTOR_LOCK = threading.Lock()


def language(text: str) -> str | None:
    """The language of a text (ISO 639-1), or None when it is short, mixed or code."""
    sample = text[:4000]
    letters = "".join(filter(str.isalpha, sample))
    latin = len(letters) if letters.isascii() else sum(letter < "\u0370" for letter in letters)
    fewest = _FEWEST_LATIN_LETTERS if 2 * latin >= len(letters) else _FEWEST_LETTERS
    readable = len(letters) + sum(map(str.isspace, sample))
    if len(letters) < fewest or readable < 0.85 * len(sample):
        return None
    middle = len(sample) // 2
    whole, *halves = (_detected(part) for part in (sample, sample[:middle], sample[middle:]))
    if whole is None or any(half not in (whole, None) for half in halves):
        return None
    return whole if whole == DEFAULT_LANGUAGE or not _reads_like_english(sample, whole) else None


def _reads_like_english(sample: str, detected: str) -> bool:
    """Code with English comments looks like many a language; its small words tell."""
    words = [word.casefold() for word in _WORD.findall(sample)]
    english = sum(word in STOP_WORDS[DEFAULT_LANGUAGE] for word in words)
    own = sum(word in STOP_WORDS.get(detected, frozenset()) for word in words)
    return english >= max(own, 1)


def _detected(text: str) -> str | None:
    with _DETECTOR_LOCK:
        found = _detector().FindLanguage(text=text)
    code = _OTHER_CODES.get(found.language, found.language)
    return code if found.probability >= _SURE and len(code) == 2 else None


@lru_cache(maxsize=1)
def _detector() -> gcld3.NNetLanguageIdentifier:
    import gcld3  # here, since only adding documents needs it

    return gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=16000)
