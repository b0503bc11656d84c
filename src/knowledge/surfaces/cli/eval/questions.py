"""Reads a file of questions with their expected answers: JSON Lines, JSON, YAML or a table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from knowledge.engine.evaluate import EvalQuestion, Expectation
from knowledge.errors import FileNotFound, InvalidParameter, KnowledgeError

QUESTION_FIELDS = ("question", "query")
DOCUMENT_FIELDS = ("document", "documents", "title", "path", "id")
PASSAGE_FIELDS = ("passage", "passages")
FORMAT_HINT = 'Each entry has a "question" and a "document" (title, path or id), a "passage" (its text), or both.'

LocatedRow = tuple[str, object]
"""Position in the file, and value."""


def read_questions(path: Path) -> list[EvalQuestion]:
    """Read the questions of a file; rows with the same question are merged."""
    expected: dict[str, list[Expectation]] = {}
    for place, row in _read_rows(path):
        text, expectations = _parse_entry(row, f"{path.name}, {place}")
        expected.setdefault(text, []).extend(expectations)
    if not expected:
        raise _invalid_file_error(f"{path.name} contains no questions")
    return [EvalQuestion(text, tuple(dict.fromkeys(wanted))) for text, wanted in expected.items()]


def _read_rows(path: Path) -> Iterator[LocatedRow]:
    if not path.is_file():
        raise FileNotFound(f"The file {path} does not exist", hint="Check the path of the questions.", path=str(path))
    try:
        read = READERS[path.suffix.lower()]
    except KeyError:
        raise _invalid_file_error(f"{path.name} has none of the suffixes {', '.join(READERS)}") from None
    try:
        yield from read(path.read_text("utf-8-sig"))
    except (ValueError, csv.Error) as error:
        raise _invalid_file_error(f"{path.name} cannot be read: {error}") from error


def _parse_json_lines(text: str) -> Iterator[LocatedRow]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error


def _number_entries(values: object) -> Iterator[LocatedRow]:
    if not isinstance(values, list):
        raise ValueError("the top level is not a list")
    yield from ((f"entry {number}", value) for number, value in enumerate(values, 1))


def _parse_json(text: str) -> Iterator[LocatedRow]:
    return _number_entries(json.loads(text))


def _parse_yaml(text: str) -> Iterator[LocatedRow]:
    import yaml

    try:
        return _number_entries(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _make_table_parser(delimiter: str) -> Callable[[str], Iterator[LocatedRow]]:
    def read(text: str) -> Iterator[LocatedRow]:
        rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
        yield from ((f"line {rows.line_num}", row) for row in rows)

    return read


READERS: dict[str, Callable[[str], Iterator[LocatedRow]]] = {
    ".jsonl": _parse_json_lines,
    ".ndjson": _parse_json_lines,
    ".json": _parse_json,
    ".yaml": _parse_yaml,
    ".yml": _parse_yaml,
    ".csv": _make_table_parser(","),
    ".tsv": _make_table_parser("\t"),
}


def _parse_entry(row: object, place: str) -> tuple[str, list[Expectation]]:
    if not isinstance(row, Mapping):
        raise _invalid_file_error(f"{place} is not an object")
    fields = cast(Mapping[str, object], row)
    texts, documents, passages = (
        list(_read_values(fields, names)) for names in (QUESTION_FIELDS, DOCUMENT_FIELDS, PASSAGE_FIELDS)
    )
    if len(texts) != 1 or not (documents or passages):
        raise _invalid_file_error(f"{place} has no question" if not texts else f"{place} has no expected answer")
    if not passages:
        return texts[0], [Expectation(document) for document in documents]
    if len(documents) > 1:
        raise _invalid_file_error(f"{place} has several documents for a passage")
    return texts[0], [Expectation(documents[0] if documents else None, passage) for passage in passages]


def _read_values(fields: Mapping[str, object], names: Iterable[str]) -> Iterator[str]:
    """Yield the non-empty values of the named fields."""
    for name in names:
        value = fields.get(name)
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if one is not None and str(one).strip():
                yield str(one).strip()


def _invalid_file_error(message: str) -> KnowledgeError:
    return InvalidParameter(message, hint=FORMAT_HINT, parameter="FILE")
