"""Where the terms of a text stand in it. The terms are the analyzer's own, so they cannot disagree with the index."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Set
from dataclasses import dataclass

from knowledge.text import analyzer

Span = tuple[int, int]
_SPACES = re.compile(r"(\s+)")


@dataclass(frozen=True, slots=True)
class LocatedToken:
    """A token of a text with its terms; `start` and `end` are places in the text as it was given."""

    start: int
    end: int
    terms: tuple[str, ...]
    """In the order in which the index has them, so that phrases can be matched."""
    singles: tuple[str, ...]
    """Single characters of unspaced scripts, which the index has after all other terms."""
    token: str
    language: str

    def find_spans(self, wanted: Set[str]) -> list[Span]:
        """Return the smallest parts of the token that have a wanted term, such as `header` in parseHTTPHeader."""
        remaining = {term for term in (*self.terms, *self.singles) if term in wanted}
        if not remaining:
            return []
        whole = [(self.start, self.end)]
        if (len(self.terms) == 1 and not self.singles) or len(self.token) != self.end - self.start:
            return whole  # a single word, or one whose length was changed by normalization
        spans: list[Span] = []
        found: set[str] = set()
        level = 0
        for here, first, last in analyzer.list_token_parts(self.token):
            if here > level:
                remaining -= found
                level = here
            if not remaining:
                break
            terms, singles = analyzer.extract_token_terms(self.token[first:last], self.language)
            matched = remaining.intersection(terms) or remaining.intersection(singles)
            if matched:
                spans.append((self.start + first, self.start + last))
                found |= matched
        return spans if not remaining - found else whole


def locate_tokens(text: str, language: str | None) -> Iterator[LocatedToken]:
    """Yield the tokens of a text in reading order."""
    code = language or analyzer.DEFAULT_LANGUAGE
    normalised, clusters = (text, None) if text.isascii() else normalise_with_places(text)
    for found in analyzer.find_tokens(normalised):
        start, end = found.span()
        terms, singles = analyzer.extract_token_terms(found[0], code)
        if clusters is not None:
            start, end = clusters[start][0], clusters[end - 1][1]
        yield LocatedToken(start, end, terms, singles, found[0], code)


def normalise_with_places(text: str) -> tuple[str, list[Span] | None]:
    """Return the text in NFKC as the analyzer does, and for each of its characters the span that it came from."""
    normalised: list[str] = []
    places: list[Span] = []
    start, changed = 0, False
    for piece in analyzer.split_pieces(text):
        whole = unicodedata.normalize("NFKC", piece)
        normalised.append(whole)
        if whole == piece:
            places += ((at, at + 1) for at in range(start, start + len(piece)))
        else:
            changed = True
            places += _locate_clusters(piece, whole, start)
        start += len(piece)
    return ("".join(normalised), places) if changed else (text, None)


def _locate_clusters(piece: str, whole: str, start: int) -> list[Span]:
    """Return for each character of a normalised piece the span of the cluster that it came from."""
    for clusters in (_split_before_starters(piece), _split_at_spaces(piece), [piece]):
        parts = [unicodedata.normalize("NFKC", cluster) for cluster in clusters]
        if "".join(parts) == whole:  # not if starters were composed with each other, as in Korean
            break
    spans: list[Span] = []
    for cluster, part in zip(clusters, parts, strict=True):
        spans += [(start, start + len(cluster))] * len(part)
        start += len(cluster)
    return spans


def _split_before_starters(piece: str) -> list[str]:
    """Split a piece before each character that is no combining mark."""
    starts = [at for at, character in enumerate(piece) if not at or not unicodedata.combining(character)]
    return [piece[start:end] for start, end in zip(starts, [*starts[1:], len(piece)], strict=True)]


def _split_at_spaces(piece: str) -> list[str]:
    """Split a piece into words and what is between them."""
    return [part for part in _SPACES.split(piece) if part]
