"""What a kind of task needs: how much a section weighs for it. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from knowledge.toolsets.sage.page import MIDDLE_PRIORITY, Page

Task: TypeAlias = Literal["coding", "debugging", "reviewing", "planning", "documenting"]
TASKS: tuple[str, ...] = get_args(Task)

WORDS = {
    "coding": "write code implement function module type naming error handling test interface",
    "debugging": "debug bug failure reproduce cause symptom log trace hypothesis fix regression",
    "reviewing": "review change risk correctness readability security feedback approve test",
    "planning": "plan scope design decision estimate risk milestone requirement trade-off",
    "documenting": "document write readme explain example reader docstring changelog reference",
}
"""Pages that do not say what they are for are chosen by these."""

SPELLINGS = {
    "py": "python", "python3": "python", "ts": "typescript", "tsx": "typescript", "js": "javascript",
    "node": "javascript", "golang": "go", "rs": "rust", "sh": "shell", "bash": "shell", "zsh": "shell",
    "c++": "cpp", "c#": "csharp", "postgresql": "sql", "sqlite": "sql",
}  # fmt: skip

WRITTEN_FOR_IT, OPEN_TO_ALL, FOR_NOTHING_ELSE = 1.0, 0.4, 0.4
BY_WORDS, BY_LANGUAGE, BY_PRIORITY = 0.4, 0.2, 0.2
LEAST = 0.35
"""What weighs less than this is about something else."""


def spelled(language: str) -> str:
    plain = language.strip().lower()
    return SPELLINGS.get(plain, plain)


def weigh(page: Page, order: int, relevance: float, task: str, language: str) -> float | None:
    """How much a section of this page weighs; None where it has no place in the task's context."""
    if page.languages and language not in page.languages:
        return None
    purpose = 0.0 if page.tasks else OPEN_TO_ALL
    if task in page.tasks:
        purpose = WRITTEN_FOR_IT + FOR_NOTHING_ELSE / len(page.tasks)
    about = BY_LANGUAGE if page.languages else 0.0
    rank = BY_PRIORITY * (MIDDLE_PRIORITY - page.priority) / (MIDDLE_PRIORITY - 1)
    if purpose + BY_WORDS * relevance < LEAST:
        return None
    return purpose + BY_WORDS * relevance + about + rank - order / 1000
