"""The tables of benchmarks/quality.py, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comparison import compute_auc, mean_difference, share_above
from judged_search import MEASURES, RankedAnswer, average_measures
from knowledge.engine.evaluate import MeanEstimate, bootstrap_difference, bootstrap_mean, mean

RELEVANT_SCORE = 0.5
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
PAIRS = (("hybrid", "text"), ("hybrid", "vector"), ("rerank", "hybrid"))

AnswersBySet = dict[str, dict[str, list[RankedAnswer]]]
"""Answers by set and mode, in the order of the questions."""

ScoresBySet = dict[str, dict[str, list[float]]]
"""The nDCG@10 of each question by set and mode."""


@dataclass(frozen=True)
class MixedAnswers:
    """Answers to one set's questions in mixed collections."""

    name: str
    of_others: list[RankedAnswer]
    of_all: list[RankedAnswer]

    @property
    def shares(self) -> list[float]:
        """Shares of relevant hits in the other sets, in all sets, and of those with a hit of another set on top."""
        astray = [float(one.best_score >= RELEVANT_SCORE and one.top_collection != self.name) for one in self.of_all]
        return [
            *(share_above(best_scores(asked), RELEVANT_SCORE) for asked in (self.of_others, self.of_all)),
            mean(astray),
        ]


def print_table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    shown = [head, ["---"] * len(head), *lines]
    print(f"\n{title}\n", *(f"| {' | '.join(line)} |" for line in shown), sep="\n", flush=True)


def format_share(value: float) -> str:
    return f"{100 * value:.1f} %"


def format_interval(found: MeanEstimate) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def print_measures(found: AnswersBySet) -> None:
    lines = []
    for name, modes in found.items():
        for mode, answers in modes.items():
            spread = bootstrap_mean([one.ndcg for one in answers])
            first, *rest = average_measures(answers)
            shown = [f"{first:.4f} [{spread.low:.3f}, {spread.high:.3f}]", *(f"{value:.4f}" for value in rest)]
            lines.append([name, str(len(answers)), mode, *shown])
    print_table("Measures, with the 95 % interval of nDCG@10", ["set", "n", "mode", *MEASURES], lines)


def print_differences(found: AnswersBySet) -> None:
    """Print the differences between modes in each set and their mean."""
    lines = []
    for better, worse in PAIRS:
        if all(better in modes and worse in modes for modes in found.values()):
            pairs = [([a.ndcg for a in modes[better]], [b.ndcg for b in modes[worse]]) for modes in found.values()]
            shown = [*(bootstrap_difference(*pair) for pair in pairs), mean_difference(pairs)]
            lines.append([f"{better} − {worse}", *map(format_interval, shown)])
    if lines:
        print_table("Differences of nDCG@10, with 95 % intervals (paired)", ["", *found, "mean of the sets"], lines)


def print_changes(after: ScoresBySet, before: ScoresBySet) -> None:
    """Print the change of nDCG@10 since an earlier run, for the sets and modes of both."""
    lines = [
        [
            name,
            str(len(new)),
            mode,
            f"{mean(old):.4f}",
            f"{mean(new):.4f}",
            format_interval(bootstrap_difference(new, old)),
        ]
        for name, modes in after.items()
        for mode, new in modes.items()
        if (old := before.get(name, {}).get(mode)) is not None
    ]
    head = ["set", "n", "mode", "before", "after", "difference"]
    print_table("Change of nDCG@10, with 95 % intervals (paired)", head, lines)


def best_scores(answers: Sequence[RankedAnswer]) -> list[float]:
    return [one.best_score for one in answers]


def print_calibration(found: AnswersBySet, foreign: Mapping[str, Sequence[RankedAnswer]]) -> None:
    lines = []
    for name, foreign_answers in foreign.items():
        own, other = best_scores(found[name]["hybrid"]), best_scores(foreign_answers)
        counts = [
            format_share(share_above(own, RELEVANT_SCORE)),
            str(len(own)),
            format_share(share_above(other, RELEVANT_SCORE)),
            str(len(other)),
        ]
        lines.append([name, *counts, f"{compute_auc(own, other):.3f}"])
    head = ["set", "own questions", "n", "of the other sets", "n", "AUC"]
    print_table("Questions with a hit of relevance 0.5, hybrid", head, lines)


def print_mixed(found: Sequence[MixedAnswers]) -> None:
    lines = [[one.name, str(len(one.of_all)), *map(format_share, one.shares)] for one in found]
    means = [format_share(mean(column)) for column in zip(*(one.shares for one in found), strict=True)]
    head = ["questions of", "n", "asked of all other sets", "asked of everything", "and the best is of another set"]
    print_table("The sets mixed: questions with a hit of relevance 0.5, hybrid", head, [*lines, ["mean", "", *means]])


def print_threshold_curve(name: str, answerable: Sequence[RankedAnswer], unanswerable: Sequence[RankedAnswer]) -> None:
    kinds = {"answerable": best_scores(answerable), "unanswerable": best_scores(unanswerable)}
    lines = [
        [kind, str(len(values)), *(format_share(share_above(values, threshold)) for threshold in THRESHOLDS)]
        for kind, values in kinds.items()
    ]
    area = compute_auc(kinds["answerable"], kinds["unanswerable"])
    head = ["questions", "n", *(f"≥ {threshold}" for threshold in THRESHOLDS)]
    print_table(f"{name}: relevance of the best hit, hybrid (AUC {area:.3f})", head, lines)
