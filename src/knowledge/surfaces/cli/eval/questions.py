"""Reads a file of questions with their expected answers: JSON Lines, JSON, YAML or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from knowledge.engine.evaluate.judge import Expectation, Question
from knowledge.errors import FileNotFound, InvalidParameter, KnowledgeError

TEXT = ("question", "query")
DOCUMENT = ("document", "documents", "title", "path", "id")
PASSAGE = ("passage", "passages")
FORM = 'Each entry has a "question" and a "document" (title, path or id), a "passage" (its text), or both.'

Row = tuple[str, object]
"""Where it stands, and what stands there."""


def read_questions(path: Path) -> list[Question]:
    """Each question once: rows that repeat one add to what is expected of it."""
    expected: dict[str, list[Expectation]] = {}
    for place, row in _rows(path):
        text, expectations = _entry(row, f"{path.name}, {place}")
        expected.setdefault(text, []).extend(expectations)
    if not expected:
        raise _wrong(f"There is no question in {path.name}")
    return [Question(text, tuple(dict.fromkeys(wanted))) for text, wanted in expected.items()]


def _rows(path: Path) -> Iterator[Row]:
    if not path.is_file():
        raise FileNotFound(f"There is no file {path}", hint="Check the path of the questions.", path=str(path))
    try:
        read = READERS[path.suffix.lower()]
    except KeyError:
        raise _wrong(f"{path.name} is none of {', '.join(READERS)}") from None
    try:
        yield from read(path.read_text("utf-8-sig"))
    except (ValueError, csv.Error) as error:
        raise _wrong(f"{path.name} cannot be read: {error}") from error


def _lines(text: str) -> Iterator[Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error


def _list(values: object) -> Iterator[Row]:
    if not isinstance(values, list):
        raise ValueError("it is not a list")
    yield from ((f"entry {number}", value) for number, value in enumerate(values, 1))


def _json(text: str) -> Iterator[Row]:
    return _list(json.loads(text))


def _yaml(text: str) -> Iterator[Row]:
    import yaml

    try:
        return _list(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _table(delimiter: str) -> Callable[[str], Iterator[Row]]:
    def read(text: str) -> Iterator[Row]:
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        yield from ((f"line {rows.line_num}", row) for row in rows)

    return read


READERS: dict[str, Callable[[str], Iterator[Row]]] = {
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".json": _json,
    ".yaml": _yaml,
    ".yml": _yaml,
    ".csv": _table(","),
    ".tsv": _table("\t"),
}


def _entry(row: object, place: str) -> tuple[str, list[Expectation]]:
    if not isinstance(row, Mapping):
        raise _wrong(f"{place} is not an entry with fields")
    fields = cast(Mapping[str, object], row)
    texts, documents, passages = (list(_values(fields, names)) for names in (TEXT, DOCUMENT, PASSAGE))
    if len(texts) != 1 or not (documents or passages):
        raise _wrong(f"{place} has no question" if not texts else f"{place} does not say what is expected")
    if not passages:
        return texts[0], [Expectation(document) for document in documents]
    if len(documents) > 1:
        raise _wrong(f"{place} names several documents for a passage")
    return texts[0], [Expectation(documents[0] if documents else None, passage) for passage in passages]


def _values(fields: Mapping[str, object], names: Iterable[str]) -> Iterator[str]:
    """What stands under these names, one by one, without what is empty."""
    for name in names:
        value = fields.get(name)
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if one is not None and str(one).strip():
                yield str(one).strip()


def _wrong(message: str) -> KnowledgeError:
    return InvalidParameter(message, hint=FORM, parameter="FILE")
