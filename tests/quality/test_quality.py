"""Search is as good as its baseline, measured with the whole engine and the default model."""

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
    compute_relevant_share,
    list_pages,
    measure_quality,
)

NDCG_NOISE = 0.015
"""Change of nDCG@10 by an edited page or another processor: about two questions of a hundred."""
MAX_RELEVANT_DRIFT = 0.06
"""Share of the questions that an edited page may move across RELEVANT_SCORE."""
BASELINE_HINT = (
    "If the change is intended, run `python -m tests.quality.collection` and commit the new baseline with its reason."
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredQuality]:
    yield measure_quality(tmp_path_factory.mktemp("quality") / "data")


def list_lower_ranks(judged: Sequence[QuestionOutcome], baseline: Baseline) -> str:
    """Return a line for each question whose rank is worse than in the baseline."""
    lines = []
    for outcome in judged:
        before = baseline.ranks.get(outcome.question.text)
        if before is not None and (outcome.rank is None or outcome.rank > before):
            lines.append(f"  {before} -> {outcome.rank}: {outcome.question.text}")
    return "\n".join(lines)


@pytest.mark.parametrize("mode", MODES)
def test_search_is_as_good_as_its_baseline(measured: MeasuredQuality, mode: SearchMode) -> None:
    baseline = Baseline.read()
    now, before = average_ndcg(measured.outcomes[mode]), baseline.ndcg[mode.value]
    worse = list_lower_ranks(measured.outcomes[SearchMode.HYBRID], baseline)
    assert now >= before - NDCG_NOISE, (
        f"nDCG@10 by {mode} fell from {before} to {now:.4f}. {BASELINE_HINT}\nIn hybrid:\n{worse}"
    )


@pytest.mark.parametrize("alone", [SearchMode.TEXT, SearchMode.VECTOR])
def test_hybrid_search_is_better_than_keyword_or_vector_search(measured: MeasuredQuality, alone: SearchMode) -> None:
    """Independent of the baseline: some questions need keywords, others vectors."""
    assert average_ndcg(measured.outcomes[SearchMode.HYBRID]) >= average_ndcg(measured.outcomes[alone]) + NDCG_NOISE


@pytest.mark.parametrize("mode", MODES)
def test_as_many_questions_have_a_relevant_hit_as_in_the_baseline(measured: MeasuredQuality, mode: SearchMode) -> None:
    now, before = compute_relevant_share(measured.outcomes[mode]), Baseline.read().relevant[mode.value]
    assert abs(now - before) <= MAX_RELEVANT_DRIFT, (
        f"By {mode}, {now:.3f} of the questions pass {RELEVANT_SCORE}; it was {before}. {BASELINE_HINT}"
    )


def test_no_hit_is_relevant_for_a_question_that_no_page_answers(measured: MeasuredQuality) -> None:
    assert {question: score for question, score in measured.unrelated_scores.items() if score >= RELEVANT_SCORE} == {}
    assert len(measured.unrelated_scores) >= 20


def test_every_question_names_a_page_that_exists() -> None:
    assert len(read_questions(QUESTIONS)) >= 100
    assert [path.name for path in list_pages() if not path.is_file()] == []
