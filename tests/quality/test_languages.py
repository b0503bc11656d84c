"""Sentences in twelve languages are found by keyword search with other forms of their words."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.model import JobStatus, NewNote, Query, SearchMode
from knowledge.testing import SharedParsers, make_test_engine

LANGUAGES = ("ar", "de", "el", "es", "fr", "he", "ja", "ko", "ru", "th", "tr", "zh")
MIN_FIRST = 18
"""Least number of the 20 questions of a language whose sentence is the first hit."""
MAX_MISSED = 1
"""Most questions of a language whose sentence is not among the first ten hits."""
JOB_SECONDS = 120.0

Ranks = dict[str, dict[str, int | None]]
"""The rank of the expected sentence by language and question; None if it is not among the first ten."""


def read_sentences() -> list[tuple[str, str, str]]:
    """Return language, sentence and question of each line."""
    lines = Path(__file__).with_name("languages.tsv").read_text("utf-8").splitlines()
    return [(language, sentence, question) for language, sentence, question in (line.split("\t") for line in lines)]


async def rank_sentences(engine: Engine) -> Ranks:
    """Add all sentences as notes, then ask each question of all of them."""
    sentences = read_sentences()
    jobs = [await engine.add(NewNote(text=sentence)) for _, sentence, _ in sentences]
    for job in jobs:
        assert (await engine.wait(job.id, JOB_SECONDS)).status is JobStatus.COMPLETED
    ranks: Ranks = defaultdict(dict)
    for language, sentence, question in sentences:
        hits = (await engine.search(Query(text=question, mode=SearchMode.TEXT, limit=10))).hits
        found = [hit.text.strip() for hit in hits]
        ranks[language][question] = found.index(sentence) + 1 if sentence in found else None
    return ranks


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory, parsers: SharedParsers) -> Iterator[Ranks]:
    engine = make_test_engine(Settings(data=tmp_path_factory.mktemp("languages") / "data"), parsers=parsers)
    engine.start()
    try:
        yield asyncio.run(rank_sentences(engine))
    finally:
        engine.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_sentence_is_found_by_other_forms_of_its_words(ranks: Ranks, language: str) -> None:
    lower = {question: rank for question, rank in ranks[language].items() if rank != 1}
    assert len(ranks[language]) >= 20
    assert len(lower) <= len(ranks[language]) - MIN_FIRST, lower
    assert list(lower.values()).count(None) <= MAX_MISSED, lower
