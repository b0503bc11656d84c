"""The tables of benchmarks/quality.py, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asking import MEASURES, Answered, averages
from comparing import auc, mean_difference, passing
from knowledge.engine.evaluate.metrics import Estimate, difference, estimate, mean

RELEVANT = 0.5
THRESHOLDS = (0.3, 0.5, 0.7, 0.9)
PAIRS = (("hybrid", "text"), ("hybrid", "vector"), ("rerank", "hybrid"))

Found = dict[str, dict[str, list[Answered]]]
"""By set and mode, question by question."""


@dataclass(frozen=True)
class Mixed:
    """One set's questions where the sets stand together."""

    name: str
    of_others: list[Answered]
    of_all: list[Answered]

    @property
    def shares(self) -> list[float]:
        """Those that pass in the other sets, those that pass in all, and those of them with a stranger on top."""
        astray = [float(one.best >= RELEVANT and one.shelf != self.name) for one in self.of_all]
        return [*(passing(relevances(asked), RELEVANT) for asked in (self.of_others, self.of_all)), mean(astray)]


def table(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    shown = [head, ["---"] * len(head), *lines]
    print(f"\n{title}\n", *(f"| {' | '.join(line)} |" for line in shown), sep="\n", flush=True)


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def span(found: Estimate) -> str:
    return f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"


def show_measures(found: Found) -> None:
    lines = []
    for name, modes in found.items():
        for mode, answers in modes.items():
            spread = estimate([one.ndcg for one in answers])
            first, *rest = averages(answers)
            shown = [f"{first:.4f} [{spread.low:.3f}, {spread.high:.3f}]", *(f"{value:.4f}" for value in rest)]
            lines.append([name, str(len(answers)), mode, *shown])
    table("Measures, with the 95 % interval of nDCG@10", ["set", "n", "mode", *MEASURES], lines)


def show_differences(found: Found) -> None:
    """One mode less another: in each set, and on the mean of the sets."""
    lines = []
    for better, worse in PAIRS:
        if all(better in modes and worse in modes for modes in found.values()):
            pairs = [([a.ndcg for a in modes[better]], [b.ndcg for b in modes[worse]]) for modes in found.values()]
            shown = [*(difference(*pair) for pair in pairs), mean_difference(pairs)]
            lines.append([f"{better} − {worse}", *map(span, shown)])
    if lines:
        table("Differences of nDCG@10, with 95 % intervals (paired)", ["", *found, "mean of the sets"], lines)


def relevances(answers: Sequence[Answered]) -> list[float]:
    return [one.best for one in answers]


def show_calibration(found: Found, foreign: Mapping[str, Sequence[Answered]]) -> None:
    lines = []
    for name, strange in foreign.items():
        own, other = relevances(found[name]["hybrid"]), relevances(strange)
        counts = [share(passing(own, RELEVANT)), str(len(own)), share(passing(other, RELEVANT)), str(len(other))]
        lines.append([name, *counts, f"{auc(own, other):.3f}"])
    head = ["set", "own questions", "n", "of the other sets", "n", "AUC"]
    table("Questions with a hit of relevance 0.5, hybrid", head, lines)


def show_mixed(found: Sequence[Mixed]) -> None:
    lines = [[one.name, str(len(one.of_all)), *map(share, one.shares)] for one in found]
    means = [share(mean(column)) for column in zip(*(one.shares for one in found), strict=True)]
    head = ["questions of", "n", "asked of all other sets", "asked of everything", "and the best is of another set"]
    table("The sets mixed: questions with a hit of relevance 0.5, hybrid", head, [*lines, ["mean", "", *means]])


def show_curve(name: str, answerable: Sequence[Answered], unanswerable: Sequence[Answered]) -> None:
    kinds = {"answerable": relevances(answerable), "unanswerable": relevances(unanswerable)}
    lines = [
        [kind, str(len(values)), *(share(passing(values, threshold)) for threshold in THRESHOLDS)]
        for kind, values in kinds.items()
    ]
    area = auc(kinds["answerable"], kinds["unanswerable"])
    head = ["questions", "n", *(f"≥ {threshold}" for threshold in THRESHOLDS)]
    table(f"{name}: relevance of the best hit, hybrid (AUC {area:.3f})", head, lines)
