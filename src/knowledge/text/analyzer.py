"""The analyzer: convert documents and queries into the same terms for every index behind `index/api.py`.

Words are case-folded, stripped of accents, stemmed by the language of the document, and split into parts:
`parseHTTPHeader` matches as a whole and by its parts. The rules are in docs/explanation/search.md.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

import Stemmer

from knowledge.index.api import QueryTerms
from knowledge.text.hebrew import stem_hebrew
from knowledge.text.stop_words import STOP_WORDS

__all__ = [
    "STOP_WORDS",
    "LastWord",
    "analyse_question",
    "extract_terms",
    "extract_token_terms",
    "find_last_word",
    "find_nearby_terms",
    "find_possible_misspellings",
    "find_tokens",
    "list_question_words",
    "list_token_parts",
    "split_pieces",
]

DEFAULT_LANGUAGE = "en"
MAX_TERM_CHARS = 128
"""Longer terms are truncated, which limits the size of the term dictionary."""
MAX_QUESTION_TERMS = 256
"""Limit of distinct query terms."""
_MAX_NUMBERS_PER_TOKEN = 32
"""Limit of numbers at the start of a token such as 3.11'2.0'1.1."""

_OPENING_QUOTE = re.compile('["“„«]')
_CLOSING_QUOTES = {'"': re.compile('"'), "“": re.compile('[”"]'), "„": re.compile('[“”"]'), "«": re.compile("»")}
_PIECE_CHARS = 512

# -- normalization and quotations in linear time ------------------------------------------------


def normalise_nfkc(text: str) -> str:
    """Normalize text to NFKC in pieces, because Python sorts a run of combining marks in quadratic time."""
    return "".join([unicodedata.normalize("NFKC", piece) for piece in split_pieces(text)])


def split_pieces(text: str) -> Iterator[str]:
    """Split a text into pieces of limited length, at spaces where there are any."""
    start = 0
    while len(text) - start > _PIECE_CHARS:
        limit = start + _PIECE_CHARS
        end = max(text.rfind(" ", start, limit), text.rfind("\n", start, limit))
        end = end if end > start else limit
        yield text[start:end]
        start = end
    yield text[start:]


def split_quoted(text: str) -> tuple[list[str], str]:
    """Return the quoted phrases, and the text with a space in place of each."""
    # A single regular expression would take quadratic time on unmatched quotation marks.
    quoted: list[str] = []
    rest: list[str] = []
    never_closed: set[str] = set()
    place = done = 0
    while opening := _OPENING_QUOTE.search(text, place):
        place = opening.end()
        closing = None if opening[0] in never_closed else _CLOSING_QUOTES[opening[0]].search(text, place)
        if closing is None:
            never_closed.add(opening[0])
        elif closing.start() > place:
            quoted.append(text[place : closing.start()])
            rest.append(text[done : opening.start()])
            place = done = closing.end()
    return quoted, " ".join([*rest, text[done:]])


# -- tokens -------------------------------------------------------------------------------------

# Python's \w does not match the vowel signs of Indic and South-East Asian scripts.
_LETTER = (
    r"\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
    r"\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3\u200c\u200d"
)
_TOKEN = re.compile(
    r"\d{1,3}(?:,\d{3}){1,40}+(?![\d,])"  # 1,000,000; a longer number would be rescanned from each group
    r"|[A-Za-z](?:\+\+|#)(?![\w+#])"  # C++ and C#
    rf"|[{_LETTER}]+(?:[.\-'’][{_LETTER}]+)*"
)
_UNSPACED_SCRIPTS = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, and Korean, whose particles are attached to words."""
_UNSPACED_RUN = re.compile(rf"([{_UNSPACED_SCRIPTS}]+)")
_PART = re.compile(rf"[{_UNSPACED_SCRIPTS}]+|[^{_UNSPACED_SCRIPTS}._\-'’,]+")
_DOTTED_NUMBER = re.compile(r"[vV]?(\d+(?:[.\-]\d+)+)(?!\d)")
_PIECE_SEPARATOR = re.compile(r"[._\-]+")
_CONTRACTIONS = frozenset(("t", "d", "m", "ll", "re", "ve"))
_PLAIN_WORD = re.compile(r"[a-z]+")


def extract_terms(text: str, language: str | None) -> list[str]:
    """Return the terms of a text in reading order, then the single characters of unspaced scripts."""
    code = language or DEFAULT_LANGUAGE
    found: list[str] = []
    singles: list[str] = []
    for token in _tokenize(text):
        whole, single = extract_token_terms(token, code)
        found += whole
        singles += single
    # Single characters between the bigrams would break phrase matches.
    return found + singles


def _tokenize(text: str) -> list[str]:
    return _TOKEN.findall(text if text.isascii() else normalise_nfkc(text))


def find_tokens(normalised: str) -> Iterator[re.Match[str]]:
    """Yield the tokens of a text in NFKC with their places."""
    return _TOKEN.finditer(normalised)


@lru_cache(maxsize=1 << 15)
def extract_token_terms(token: str, language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # A change here changes the terms of every index: increase the index version, so that indexes are rebuilt.
    if _PLAIN_WORD.fullmatch(token):
        return (_stem_word(token, language)[:MAX_TERM_CHARS],), ()
    found: list[str] = []
    singles: list[str] = []
    for piece in _UNSPACED_RUN.split(token):
        if _UNSPACED_RUN.match(piece):
            found += _split_bigrams(piece)
            singles += piece if len(piece) > 1 else ""
        elif piece:
            found += (_normalise_word(word, language) for word in dict.fromkeys(_split_words(piece)))
    return tuple(term for term in found if term), tuple(singles)


def list_token_parts(token: str) -> Iterator[tuple[int, int, int]]:
    """Yield level, start and end of the parts of a token, finest level first; each part has terms of its own.

    Level 0 are single characters of unspaced scripts and parts in camel case, 1 bigrams and words, 2 the token.
    """
    coarser: list[tuple[int, int, int]] = []
    for run in _PART.finditer(token):
        start, end = run.span()
        if _UNSPACED_RUN.match(run[0]):
            yield from ((0, at, at + 1) for at in range(start, end))
            coarser += ((1, at, min(at + 2, end)) for at in range(start, max(end - 1, start + 1)))
            continue
        coarser.append((1, start, end))
        for part in _split_camel_case(run[0]):
            yield 0, start, start + len(part)
            start += len(part)
    yield from coarser
    yield 2, 0, len(token)


def _split_bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def _split_words(token: str) -> Iterator[str]:
    """Yield the words of a token before folding: the whole identifier, then its parts."""
    if token[-1] in "+#":
        yield token
    elif "," in token:
        yield token.replace(",", "")
    elif number := _DOTTED_NUMBER.match(token):
        yield from _split_after_numbers(token, number)
    else:
        for word in _split_apostrophes(token):
            yield from _split_name(word)


def _split_after_numbers(token: str, number: re.Match[str]) -> Iterator[str]:
    """Yield the words of a token that starts with a number: the token, the rest, and the number."""
    numbers = [number[1]]
    while number.end() < len(token):
        yield token
        token = token[number.end() :].strip(".-'’_") or number[1]
        following = _DOTTED_NUMBER.match(token)
        if following is None or len(numbers) == _MAX_NUMBERS_PER_TOKEN:
            yield from _split_words(token) if following is None else ()
            break
        number = following
        numbers.append(number[1])
    for one in reversed(numbers):
        yield from _split_number(one)


def _split_number(number: str) -> Iterator[str]:
    """Yield a version or date and its prefixes: 3.11.7 and 3.11, 2024-05-01 and 2024."""
    yield number
    ends = [found.start() for found in re.finditer(r"[.\-]", number)]
    yield from (number[:end] for end in reversed(ends[1:]) if end <= MAX_TERM_CHARS)
    if ends[0] == 4:
        yield number[:4]
    if len(ends) == 1 and number[ends[0]] == "-":
        yield from number.split("-")


def _split_apostrophes(token: str) -> Iterator[str]:
    """Split at apostrophes: don't is dont, cat's is cat, l'homme is l and homme."""
    head, *tails = re.split("['’]", token)
    for tail in tails:
        if tail.lower() in _CONTRACTIONS:
            head += tail
        elif tail.lower() != "s":
            yield head
            head = tail
    yield head


def _split_name(word: str) -> Iterator[str]:
    """Yield an identifier joined and in parts; a hyphenated word is joined only if a part is short or has digits."""
    pieces = [piece for piece in _PIECE_SEPARATOR.split(word) if piece]
    if len(pieces) > 1 and not (_has_only_hyphens(word) and all(len(p) > 1 and p.isalpha() for p in pieces)):
        yield "".join(pieces)
    for piece in pieces:
        if _is_plural_of_capitals(piece):  # the stemmer does not change "pdfs" because it has no vowel
            yield piece[:-1]
            continue
        yield piece
        parts = _split_camel_case(piece)
        if len(parts) > 1:
            yield from (part for part in parts if len(part) > 1)


def _has_only_hyphens(word: str) -> bool:
    return not any(mark in word for mark in "._")


def _split_camel_case(name: str) -> list[str]:
    """Split parseHTTPHeader into three parts and sha256 into two, but not Words and PDF."""
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


# -- folding and stemming -----------------------------------------------------------------------

_STEMMER_NAMES = {
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
    ("\u0590", "\u05ff", "he", ("he", "yi")),
    ("\u0600", "\u06ff", "ar", ("ar",)),
    ("\u0900", "\u097f", "hi", ("hi", "ne")),
    ("\u0b80", "\u0bff", "ta", ("ta",)),
)
"""First and last character, default stemmer language, and languages with their own stemmer."""
_NON_LATIN_LANGUAGES = frozenset(code for *_, codes in _SCRIPTS for code in codes) - {"sr"}
_COMBINING_MARKS = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200c\u200d]+")
_LETTERS_WITHOUT_ACCENT = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
)
_STEMMER_LOCK = threading.Lock()  # a Stemmer is not thread-safe


@cache
def _load_stemmer(code: str) -> Stemmer.Stemmer | None:
    name = _STEMMER_NAMES.get(code)
    return Stemmer.Stemmer(name, 0) if name in Stemmer.algorithms() else None


def _normalise_word(word: str, language: str) -> str:
    folded = word[: 4 * MAX_TERM_CHARS].casefold()
    has_digits = any(character.isdigit() for character in folded)
    return _fold_accents(folded if has_digits else _stem_word(folded, language))[:MAX_TERM_CHARS]


def _stem_word(word: str, language: str) -> str:
    code = _choose_stem_language(word, language)
    if code == "he":
        return stem_hebrew(word)
    stemmer = _load_stemmer(code)
    if stemmer is None:
        return word
    with _STEMMER_LOCK:
        return str(stemmer.stemWord(word))


def _choose_stem_language(word: str, language: str) -> str:
    """Return the document language for words in its script, otherwise the default language of the word's script."""
    first = word[:1]
    if first < "\u0370":
        return DEFAULT_LANGUAGE if language in _NON_LATIN_LANGUAGES else language
    for low, high, usual, own in _SCRIPTS:
        if low <= first <= high:
            return language if language in own else usual
    return ""


def _fold_accents(word: str) -> str:
    """Remove accents and vowel points after stemming (Unicode NFD without combining marks)."""
    if word.isascii():
        return word
    plain = _COMBINING_MARKS.sub("", unicodedata.normalize("NFD", word.translate(_LETTERS_WITHOUT_ACCENT)))
    return unicodedata.normalize("NFC", plain)


# -- queries ------------------------------------------------------------------------------------


def analyse_question(text: str, languages: Collection[str]) -> QueryTerms:
    """Return the terms of a query, each with its stems in these languages, and its phrases."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    forms = [form for token in _drop_stop_words(text, codes) for form in _find_forms(token, codes)]
    quoted, rest = split_quoted(text)
    phrases = tuple(found for phrase in quoted if (found := _find_phrase_forms(phrase, codes)))
    return QueryTerms(
        terms=_limit_terms(forms), phrases=phrases, exact=bool(phrases) and _has_only_stop_words(rest, codes)
    )


def _has_only_stop_words(text: str, codes: tuple[str, ...]) -> bool:
    small = frozenset[str]().union(*(STOP_WORDS.get(code, ()) for code in codes))
    return all(token.casefold() in small for token in _tokenize(text))


def _find_forms(token: str, codes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return each term of a token with its stems; tokens are split the same way in all languages."""
    if len(codes) == 1:
        return [(term,) for term in extract_token_terms(token, codes[0])[0]]
    by_language = [extract_token_terms(token, code)[0] for code in codes]
    return [tuple(dict.fromkeys(forms)) for forms in zip(*by_language, strict=True)]


def _find_phrase_forms(text: str, codes: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    tokens = _tokenize(text)
    found = (tuple(term for token in tokens for term in extract_token_terms(token, code)[0]) for code in codes)
    return tuple(dict.fromkeys(phrase for phrase in found if phrase))


@lru_cache(maxsize=64)  # a search calls this twice
def _drop_stop_words(text: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tokens without the stop words of the most likely language, or all if only stop words remain."""
    tokens = _tokenize(text)
    plain = [token.replace("'", "").replace("’", "").casefold() for token in tokens]
    lists = [STOP_WORDS[code] for code in codes if code in STOP_WORDS]
    small = max(lists, key=lambda words: sum(word in words for word in plain), default=frozenset())
    return tuple(token for token, word in zip(tokens, plain, strict=True) if word not in small) or tuple(tokens)


def list_question_words(text: str, languages: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the words of a query, without stop words, each with the terms of which a passage must contain one."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    tokens = list(dict.fromkeys(_drop_stop_words(text, codes)))[:MAX_QUESTION_TERMS]
    return {token: tuple(term for forms in _find_forms(token, codes) for term in forms) for token in tokens}


@dataclass(frozen=True, slots=True)
class LastWord:
    """The last word of a question that is being typed."""

    token: str
    prefix: str
    """As the beginning of terms: case-folded, without accents, not stemmed."""
    forms: tuple[str, ...]


def find_last_word(text: str, languages: Collection[str]) -> LastWord | None:
    """Return the word that a question ends with, if it may be incomplete: letters of a spaced script, no stop word."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    tokens = _drop_stop_words(text, codes)
    token = tokens[-1] if tokens else ""
    if (
        not token.isalpha()
        or not normalise_nfkc(text[-2 * len(token) :]).endswith(token)
        or _UNSPACED_RUN.search(token)
    ):
        return None
    forms = _find_forms(token, codes)
    return LastWord(token, _fold_accents(token.casefold())[:MAX_TERM_CHARS], forms[-1]) if len(forms) == 1 else None


# -- misspelt words -----------------------------------------------------------------------------

_MIN_MISSPELT_CHARS, _MAX_MISSPELT_CHARS = 5, 32
"""Shorter words nearly all have a neighbour at edit distance 1, and longer tokens are not words."""
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрстуфхцчшщъыьэюяё", "αβγδεζηθικλμνξοπρστυφχψως")


def find_possible_misspellings(text: str, languages: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the query words that may be misspelt with their terms, without names, numbers, short and quoted words."""
    codes = tuple(dict.fromkeys(languages)) or (DEFAULT_LANGUAGE,)
    words = (word for token in _drop_stop_words(split_quoted(text)[1], codes) for word in token.split("-"))
    return {word: _find_forms(word, codes)[0] for word in words if _may_be_misspelt(word)}


def _may_be_misspelt(word: str) -> bool:
    if not _MIN_MISSPELT_CHARS <= len(word) <= _MAX_MISSPELT_CHARS:
        return False
    return word.isalpha() and (word.islower() or word.istitle()) and not _UNSPACED_RUN.search(word)


@lru_cache(maxsize=256)
def find_nearby_terms(word: str, languages: tuple[str, ...]) -> dict[str, str]:
    """Return the terms of all words at Damerau-Levenshtein distance 1, each with its word."""
    typed = word.casefold()
    edits = [edit for edit in dict.fromkeys(_list_edits(typed)) if edit != typed]
    edits.reverse()  # of two edits with the same stem, the likelier one wins
    stems = (_stem_words(edits, _choose_stem_language(typed, code)) for code in languages or (DEFAULT_LANGUAGE,))
    return {_fold_accents(stem): edit for found in stems for stem, edit in zip(found, edits, strict=True)}


def _stem_words(words: list[str], language: str) -> list[str]:
    stemmer = _load_stemmer(language)
    if stemmer is None:
        return words
    with _STEMMER_LOCK:
        return list(stemmer.stemWords(words))


def _list_edits(word: str) -> Iterator[str]:
    """Yield all words at Damerau-Levenshtein distance 1, likeliest first."""
    letters = next((alphabet for alphabet in _ALPHABETS if any(letter in alphabet for letter in word)), "")
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    yield from (head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1)
    yield from (head + letter + tail for head, tail in cuts for letter in letters)
    yield from (head + letter + tail[1:] for head, tail in cuts if tail for letter in letters)
    yield from (head + tail[1:] for head, tail in cuts if tail)


def _limit_terms(forms: list[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    kept = frozenset(list(dict.fromkeys(forms))[:MAX_QUESTION_TERMS])
    return tuple(form for form in forms if form in kept)
