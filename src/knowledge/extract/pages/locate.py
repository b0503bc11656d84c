"""Finds the boxes of chunks among the words of a page.

Chunks and page are compared by their letters and digits alone, because extraction joins hyphenated words, repairs
ligatures and adds Markdown. All chunks of a page are placed together, so that each word of the page goes to one chunk.
Each step takes linear time, apart from sorting.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from knowledge.model.pages import Box, PageWord

STRONG_RUN_LETTERS, WEAK_RUN_LETTERS = 16, 5
"""Letters in a row that must be equal: anywhere on the page, and between two places that are known."""
MAX_CANDIDATES = 8
"""Places of the page that are compared with one place of a chunk."""
MAX_GAP_FACTOR, MAX_GAP_LETTERS = 2, 60
"""Part of the page between two known places that is searched for the letters between them."""
MAX_OVERRUN_LETTERS = 60
"""Letters at the end of a run that may belong to the next run."""
MAX_LETTERS = 400_000
MAX_FILLED_WORDS = 3
"""Words between two found words of a chunk that are marked as well."""
MIN_LINE_OVERLAP = 0.5
"""Share of the height of the lower of two boxes in one line that overlaps."""
MAX_WORD_GAP = 1.6
"""Distance of two words in one line, as a factor of their height."""
NEAR_LINES = 2.5
"""Distance from the found words, in line heights, within which a single word is taken."""


@dataclass(frozen=True, slots=True)
class LocatedChunk:
    boxes: tuple[Box, ...]
    """One per line, in the order of the words on the page."""
    found: int
    """Letters of the chunk that are on the page."""
    letters: int
    before: int = 0
    """Letters at its beginning that are not on the page."""
    after: int = 0
    """Letters at its end that are not on the page."""


@dataclass(slots=True)
class _Letters:
    """The letters and digits of a text, with the word that each belongs to."""

    text: str
    owner: list[int]


@dataclass(slots=True)
class _PageState(_Letters):
    boxes: list[Box]
    """Of each word."""
    width: float
    height: float
    claimed: bytearray = field(init=False)
    """For each letter whether a chunk has it."""

    def __post_init__(self) -> None:
        self.claimed = bytearray(len(self.text))

    def continue_line(self, first: int, second: int) -> bool:
        """Return whether two letters are in the same word, or in words that follow each other in one line."""
        one, other = self.owner[first], self.owner[second]
        return one == other or len(join_lines([self.boxes[one], self.boxes[other]], self.width, self.height)) == 1


@dataclass(slots=True)
class _ChunkState:
    letters: _Letters
    at: list[int]
    """For each letter its place on the page, or -1."""
    words: set[int] = field(default_factory=set)


def locate_chunks(words: Sequence[PageWord], width: float, height: float, texts: Sequence[str]) -> list[LocatedChunk]:
    """Return the boxes of each chunk of a page, given all chunks that may have text on it, in reading order."""
    letters = _read_letters([word.text for word in words])
    page = _PageState(letters.text, letters.owner, [word.box for word in words], width, height)
    chunks = [_ChunkState(letters, [-1] * len(letters.text)) for letters in map(_split_words, texts)]
    strong = _index_runs(page.text, STRONG_RUN_LETTERS)
    for chunk in chunks:
        _match_runs(chunk, page, strong)
    for chunk in chunks:
        _match_gaps(chunk, page)
    by_word = _index_words(page)
    for chunk in chunks:
        _match_words(chunk, page, by_word)
    _choose_words(chunks, page)
    return [_make_located(chunk, page) for chunk in chunks]


# -- letters --------------------------------------------------------------------------------------


def normalise_letters(text: str) -> str:
    """Return the letters and digits of a text without case, compatibility forms and soft hyphens."""
    if text.isascii():
        return "".join(filter(str.isalnum, text.lower()))
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))


def cut_words(text: str, letters: int, from_end: bool = False) -> str:
    """Return the words at the beginning or the end of a text that have about this many letters and digits."""
    words, count, taken = text.split(), 0, list[str]()
    for word in reversed(words) if from_end else words:
        if count >= letters:
            break
        taken.append(word)
        count += len(normalise_letters(word))
    return " ".join(reversed(taken) if from_end else taken)


def _read_letters(words: Sequence[str]) -> _Letters:
    parts, owner, total = [], list[int](), 0
    for place, word in enumerate(words):
        letters = normalise_letters(word)
        total += len(letters)
        if total > MAX_LETTERS:
            break
        parts.append(letters)
        owner += [place] * len(letters)
    return _Letters("".join(parts), owner)


def _split_words(text: str) -> _Letters:
    return _read_letters(text.split())


# -- matching -------------------------------------------------------------------------------------


def _index_runs(text: str, size: int, start: int = 0, stop: int | None = None) -> dict[str, list[int]]:
    runs: dict[str, list[int]] = defaultdict(list)
    for place in range(start, (len(text) if stop is None else stop) - size + 1):
        runs[text[place : place + size]].append(place)
    return runs


def _match_runs(chunk: _ChunkState, page: _PageState, runs: dict[str, list[int]]) -> None:
    """Claim every long run of equal letters, wherever it is on the page."""
    text, place, expected = chunk.letters.text, 0, 0
    while place + STRONG_RUN_LETTERS <= len(text):
        found = runs.get(text[place : place + STRONG_RUN_LETTERS])
        if found is None:
            place += 1
            continue
        start, length = _choose_run(text, place, page, found, expected)
        _claim(chunk, place, start, length, page)
        _correct_overrun(chunk, place, start, page)
        place, expected = place + length, start + length


def _correct_overrun(chunk: _ChunkState, place: int, start: int, page: _PageState) -> None:
    """Give the words before a run to it that the run before has taken from another line.

    Two paragraphs that begin with the same word are an example: the run of the paragraph above goes on into the one
    that follows it on the page.
    """
    text, owner, taken = chunk.letters.text, chunk.letters.owner, 0
    for back in range(1, min(MAX_OVERRUN_LETTERS, place, start) + 1):
        before = chunk.at[place - back]
        if before < 0 or page.text[start - back] != text[place - back] or page.claimed[start - back]:
            break
        if not page.continue_line(start - back, start - back + 1):
            break
        if place == back or owner[place - back - 1] != owner[place - back]:  # a whole word
            taken = back
    if not taken:
        return
    first = chunk.at[place - taken]
    if place > taken and chunk.at[place - taken - 1] == first - 1 and page.continue_line(first - 1, first):
        return
    for letter in chunk.at[place - taken : place]:
        page.claimed[letter] = 0
    _claim(chunk, place - taken, start - taken, taken, page)


def _choose_run(text: str, place: int, page: _PageState, found: Sequence[int], expected: int) -> tuple[int, int]:
    """Return the longest run, preferring letters that no chunk has claimed and the place after the last run."""
    middle = bisect_left(found, expected)
    near = found[max(0, middle - MAX_CANDIDATES // 2) : middle + MAX_CANDIDATES // 2]
    best = (-1, -1, False, 0)
    for start in near:
        length = _measure_run(text, place, page.text, start)
        unclaimed = page.claimed.count(0, start, start + length)
        best = max(best, (unclaimed, length, start >= expected, -start))
    return -best[3], best[1]


def _measure_run(text: str, place: int, page: str, start: int) -> int:
    """Return the number of equal letters from two places on."""
    length, step, most = 0, 64, min(len(text) - place, len(page) - start)
    while length < most:
        size = min(step, most - length)
        if text[place + length : place + length + size] == page[start + length : start + length + size]:
            length += size
        elif step == 1:
            break
        else:
            step = max(1, step // 4)
    return length


def _claim(chunk: _ChunkState, place: int, start: int, length: int, page: _PageState) -> None:
    chunk.at[place : place + length] = range(start, start + length)
    page.claimed[start : start + length] = b"\1" * length


def _list_gaps(chunk: _ChunkState, page_length: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the unmatched ranges of a chunk with the range of the page between their neighbours."""
    at, total, place = chunk.at, len(chunk.at), 0
    while place < total:
        if at[place] >= 0:
            place += 1
            continue
        end = place
        while end < total and at[end] < 0:
            end += 1
        size = MAX_GAP_FACTOR * (end - place) + MAX_GAP_LETTERS
        before = at[place - 1] + 1 if place else -1
        after = at[end] if end < total else -1
        if before >= 0 and after >= 0:
            low, high = (before, after) if before <= after <= before + size else (0, 0)
        elif before >= 0:
            low, high = before, min(page_length, before + size)
        elif after >= 0:
            low, high = max(0, after - size), after
        else:
            low, high = 0, 0
        yield place, end, low, high
        place = end


def _match_gaps(chunk: _ChunkState, page: _PageState) -> None:
    """Claim shorter runs between two places that are known, in order."""
    for place, end, low, high in list(_list_gaps(chunk, len(page.text))):
        runs = _index_runs(page.text, WEAK_RUN_LETTERS, low, high) if high > low else {}
        cursor = low
        while runs and place + WEAK_RUN_LETTERS <= end:
            found = runs.get(chunk.letters.text[place : place + WEAK_RUN_LETTERS])
            following = bisect_left(found, cursor) if found else 0
            if not found or following == len(found) or page.claimed[found[following]]:
                place += 1
                continue
            start = found[following]
            length = min(_measure_run(chunk.letters.text, place, page.text, start), end - place, high - start)
            _claim(chunk, place, start, length, page)
            place, cursor = place + length, start + length


def _index_words(page: _Letters) -> dict[str, list[int]]:
    """Return the first letters of each word of the page, by its letters."""
    by_word: dict[str, list[int]] = defaultdict(list)
    for start, stop in _list_words(page):
        by_word[page.text[start:stop]].append(start)
    return by_word


def _list_words(letters: _Letters) -> Iterator[tuple[int, int]]:
    start, owner = 0, letters.owner
    for place in range(1, len(owner) + 1):
        if place == len(owner) or owner[place] != owner[start]:
            yield start, place
            start = place


def _match_words(chunk: _ChunkState, page: _PageState, by_word: dict[str, list[int]]) -> None:
    """Claim single words that no chunk has, near those that were found, such as the cells of a table."""
    region = _Region([page.boxes[page.owner[place]] for place in chunk.at if place >= 0], page.width, page.height)
    cursor = 0
    for start, stop in _list_words(chunk.letters):
        if chunk.at[start] >= 0:
            cursor = chunk.at[start]
            continue
        found = by_word.get(chunk.letters.text[start:stop], ())
        middle = bisect_left(found, cursor)
        near = found[max(0, middle - MAX_CANDIDATES) : middle + MAX_CANDIDATES]
        for place in sorted(near, key=lambda place, cursor=cursor: (abs(place - cursor), place)):
            box = page.boxes[page.owner[place]]
            if not page.claimed[place] and region.has(box):
                _claim(chunk, start, place, stop - start, page)
                region.add(box)
                cursor = place + stop - start
                break


class _Region:
    """The part of the page around the found words of a chunk, one range of x per strip of y; everything while empty."""

    def __init__(self, boxes: Sequence[Box], width: float, height: float) -> None:
        self._width, self._height = width, height
        heights = sorted((box[3] - box[1]) * height for box in boxes)
        self._reach = NEAR_LINES * (heights[len(heights) // 2] if heights else 0.0)
        self._empty = not boxes
        self._strips: dict[int, tuple[float, float]] = {}
        for box in boxes:
            self.add(box)

    def _list_strips(self, box: Box, reach: float) -> range:
        size = max(self._reach, 1.0)
        return range(int((box[1] * self._height - reach) // size), int((box[3] * self._height + reach) // size) + 1)

    def add(self, box: Box) -> None:
        for strip in self._list_strips(box, 0.0):
            left, right = self._strips.get(strip, (box[0], box[2]))
            self._strips[strip] = (min(left, box[0]), max(right, box[2]))

    def has(self, box: Box) -> bool:
        if self._empty:
            return True
        reach = self._reach / max(self._width, 1.0)
        for strip in self._list_strips(box, self._reach):
            if strip in self._strips:
                left, right = self._strips[strip]
                if box[2] >= left - reach and box[0] <= right + reach:
                    return True
        return False


# -- boxes ----------------------------------------------------------------------------------------


def _choose_words(chunks: Sequence[_ChunkState], page: _Letters) -> None:
    """Give each word of the page to the chunks that have at least half of its letters, and fill small gaps."""
    sizes: dict[int, int] = defaultdict(int)
    for owner in page.owner:
        sizes[owner] += 1
    taken: set[int] = set()
    for chunk in chunks:
        counts: dict[int, int] = defaultdict(int)
        for place in chunk.at:
            if place >= 0:
                counts[page.owner[place]] += 1
        chunk.words = {word for word, count in counts.items() if 2 * count >= sizes[word]}
        taken |= chunk.words
    for chunk in chunks:
        found = sorted(chunk.words)
        for before, after in pairwise(found):
            between = range(before + 1, after)
            if len(between) <= MAX_FILLED_WORDS and taken.isdisjoint(between):
                chunk.words.update(between)


def _make_located(chunk: _ChunkState, page: _PageState) -> LocatedChunk:
    boxes = [page.boxes[word] for word in sorted(chunk.words)]
    found = [place for place, at in enumerate(chunk.at) if at >= 0]
    total = len(chunk.at)
    before, after = (found[0], total - 1 - found[-1]) if found else (total, total)
    return LocatedChunk(tuple(join_lines(boxes, page.width, page.height)), len(found), total, before, after)


def join_lines(boxes: Sequence[Box], width: float, height: float) -> list[Box]:
    """Join the boxes of words that follow each other in one line, which may run up or down the page."""
    tall = sum((box[3] - box[1]) * height > 1.5 * (box[2] - box[0]) * width for box in boxes)
    if 2 * tall > len(boxes):
        turned = join_lines([(top, left, bottom, right) for left, top, right, bottom in boxes], height, width)
        return [(left, top, right, bottom) for top, left, bottom, right in turned]
    lines: list[Box] = []
    for box in boxes:
        if lines and _continues_line(lines[-1], box, width, height):
            last = lines[-1]
            box = (min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3]))
            lines[-1] = box
        else:
            lines.append(box)
    return lines


def _continues_line(line: Box, box: Box, width: float, height: float) -> bool:
    lower = min(line[3] - line[1], box[3] - box[1])
    overlap = min(line[3], box[3]) - max(line[1], box[1])
    if overlap < MIN_LINE_OVERLAP * lower:
        return False
    gap = max(box[0] - line[2], line[0] - box[2]) * width
    return gap <= MAX_WORD_GAP * max(line[3] - line[1], box[3] - box[1]) * height
