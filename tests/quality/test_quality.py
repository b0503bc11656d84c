"""Search stays as good as it was: questions about our own pages, the whole engine, the default model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from knowledge.engine.judging import Outcome
from knowledge.model import Mode
from knowledge.surfaces.cli.questions import read_questions
from tests.quality.collection import MODES, QUESTIONS, Baseline, measured, ndcg, pages

NOISE = 0.015
"""What an edited page, or the arithmetic of another processor, may cost: two questions of a hundred."""
MEND = "If the change is meant, run `python -m tests.quality.collection` and commit the new baseline with its reason."


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Mode, list[Outcome]]]:
    yield measured(tmp_path_factory.mktemp("quality") / "data")


def fallen(judged: Sequence[Outcome], baseline: Baseline) -> str:
    """The questions whose answer stands lower than it did."""
    lines = []
    for outcome in judged:
        before = baseline.ranks.get(outcome.question.text)
        if before is not None and (outcome.rank is None or outcome.rank > before):
            lines.append(f"  {before} -> {outcome.rank}: {outcome.question.text}")
    return "\n".join(lines)


@pytest.mark.parametrize("mode", MODES)
def test_search_is_as_good_as_its_baseline(found: dict[Mode, list[Outcome]], mode: Mode) -> None:
    baseline = Baseline.read()
    now, before = ndcg(found[mode]), baseline.ndcg[mode.value]
    lower = fallen(found[Mode.HYBRID], baseline)
    assert now >= before - NOISE, f"nDCG@10 by {mode} fell from {before} to {now:.4f}. {MEND}\nIn hybrid:\n{lower}"


@pytest.mark.parametrize("alone", [Mode.TEXT, Mode.VECTOR])
def test_words_and_meaning_together_are_no_worse_than_either_alone(
    found: dict[Mode, list[Outcome]], alone: Mode
) -> None:
    """A hundred questions tell no smaller difference apart."""
    assert ndcg(found[Mode.HYBRID]) >= ndcg(found[alone]) - NOISE


def test_every_question_names_a_page_that_exists() -> None:
    assert len(read_questions(QUESTIONS)) >= 100
    assert [path.name for path in pages() if not path.is_file()] == []
