"""Search stays as good as it was: questions about our own pages, the whole engine, the default model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from knowledge.engine.evaluate import QuestionOutcome
from knowledge.model import SearchMode
from knowledge.surfaces.cli.eval.questions import read_questions
from tests.quality.collection import (
    MODES,
    QUESTIONS,
    RELEVANT_SCORE,
    Baseline,
    MeasuredQuality,
    average_ndcg,
    list_pages,
    measure_quality,
    share_relevant,
)

NOISE = 0.015
"""What an edited page, or the arithmetic of another processor, may cost: two questions of a hundred."""
DRIFT = 0.06
"""The share of questions that an edited page may lift over relevance 0.5 or let fall below it."""
MEND = "If the change is meant, run `python -m tests.quality.collection` and commit the new baseline with its reason."


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredQuality]:
    yield measure_quality(tmp_path_factory.mktemp("quality") / "data")


def fallen(judged: Sequence[QuestionOutcome], baseline: Baseline) -> str:
    """The questions whose answer stands lower than it did."""
    lines = []
    for outcome in judged:
        before = baseline.ranks.get(outcome.question.text)
        if before is not None and (outcome.rank is None or outcome.rank > before):
            lines.append(f"  {before} -> {outcome.rank}: {outcome.question.text}")
    return "\n".join(lines)


@pytest.mark.parametrize("mode", MODES)
def test_search_is_as_good_as_its_baseline(found: MeasuredQuality, mode: SearchMode) -> None:
    baseline = Baseline.read()
    now, before = average_ndcg(found.outcomes[mode]), baseline.ndcg[mode.value]
    lower = fallen(found.outcomes[SearchMode.HYBRID], baseline)
    assert now >= before - NOISE, f"nDCG@10 by {mode} fell from {before} to {now:.4f}. {MEND}\nIn hybrid:\n{lower}"


@pytest.mark.parametrize("alone", [SearchMode.TEXT, SearchMode.VECTOR])
def test_words_and_meaning_together_are_better_than_either_alone(found: MeasuredQuality, alone: SearchMode) -> None:
    """Whatever the baseline says: some questions need the words, others the meaning."""
    assert average_ndcg(found.outcomes[SearchMode.HYBRID]) >= average_ndcg(found.outcomes[alone]) + NOISE


@pytest.mark.parametrize("mode", MODES)
def test_relevance_means_what_it_meant(found: MeasuredQuality, mode: SearchMode) -> None:
    now, before = share_relevant(found.outcomes[mode]), Baseline.read().relevant[mode.value]
    assert abs(now - before) <= DRIFT, (
        f"By {mode}, {now:.3f} of the questions pass {RELEVANT_SCORE}; it was {before}. {MEND}"
    )


def test_nothing_is_relevant_to_a_question_about_something_else(found: MeasuredQuality) -> None:
    assert {question: score for question, score in found.unrelated_scores.items() if score >= RELEVANT_SCORE} == {}
    assert len(found.unrelated_scores) >= 20


def test_every_question_names_a_page_that_exists() -> None:
    assert len(read_questions(QUESTIONS)) >= 100
    assert [path.name for path in list_pages() if not path.is_file()] == []
