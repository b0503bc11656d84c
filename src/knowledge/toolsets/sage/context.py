"""`sage_get_context` and `sage_task_prompt`: rank sections for a task and fit them into a token budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

from knowledge.errors import NotFound, Unreadable
from knowledge.model import Json
from knowledge.toolsets.quoting import format_separator, make_boundary, quote_text
from knowledge.toolsets.sage.library import LAYERS
from knowledge.toolsets.sage.page import MIDDLE_PRIORITY, LayerPage, split_sections
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.timeouts import CONTEXT, STANDARD, collect_within
from knowledge.toolsets.sage.token_budget import CandidateSection, ChosenSections, CountTokens, choose_sections

READING_SHARE, CHOOSING_SHARE = 0.7, 0.95
"""Shares of the deadline after which reading and choosing stop."""
MAX_BUDGET_MULTIPLE = 4
"""Token counting stops after candidates worth this many budgets, because they are sorted by weight."""
MAX_GUIDELINES = 8

LAYER_TITLES = {
    "core": "Core principles",
    "guidelines": "Coding standards",
    "frameworks": "Conceptual frameworks and patterns",
    "practices": "Best practices",
}

Task: TypeAlias = Literal["coding", "debugging", "reviewing", "planning", "documenting"]
TASKS: tuple[str, ...] = get_args(Task)

TASK_TERMS = {
    "coding": "write code implement function module type naming error handling test interface",
    "debugging": "debug bug failure reproduce cause symptom log trace hypothesis fix regression",
    "reviewing": "review change risk correctness readability security feedback approve test",
    "planning": "plan scope design decision estimate risk milestone requirement trade-off",
    "documenting": "document write readme explain example reader docstring changelog reference",
}
"""Search terms that rank the sections of pages for a task."""

LANGUAGE_ALIASES = {
    "py": "python", "python3": "python", "ts": "typescript", "tsx": "typescript", "js": "javascript",
    "node": "javascript", "golang": "go", "rs": "rust", "sh": "shell", "bash": "shell", "zsh": "shell",
    "c++": "cpp", "c#": "csharp", "postgresql": "sql", "sqlite": "sql",
}  # fmt: skip

TASK_WEIGHT, ANY_TASK_WEIGHT, ONLY_TASK_WEIGHT = 1.0, 0.4, 0.4
RELEVANCE_WEIGHT, LANGUAGE_WEIGHT, PRIORITY_WEIGHT = 0.4, 0.2, 0.2
MIN_WEIGHT = 0.35
"""Sections below this weight are not relevant to the task."""


async def build_context(sage: SageService, task: str, language: str, budget: int) -> Json:
    """Return the sections most relevant to a task, in at most `budget` tokens."""
    deadline, boundary = sage.make_deadline(CONTEXT), make_boundary()
    separator = format_separator(boundary)
    read = await collect_within(_read_pages(sage), deadline.seconds_left(READING_SHARE))
    pages = read.items
    chosen = await collect_within(
        _choose_within_budget(sage, pages, task, normalize_language(language), budget, separator),
        deadline.seconds_left(CHOOSING_SHARE),
    )
    if read.complete and chosen.complete:
        found = chosen.items[0]
        return {
            "context": found.text, "sections": list(found.sections), "token_count": found.tokens,
            "load_time_ms": deadline.elapsed_ms, "cut_sections": list(found.cut),
            "sections_left_out": found.left_out, "boundary": boundary, "complete": True,
        }  # fmt: skip
    ready = (
        chosen.items[0]
        if chosen.items
        else _choose_by_bytes(pages, task, normalize_language(language), budget, separator)
    )
    counted = ready.tokens if chosen.items else None
    raise sage.timeouts.record_miss(
        deadline, "sage_get_context",
        {"content": ready.text, "sections": list(ready.sections), "token_count": counted},
    )  # fmt: skip


def _read_pages(sage: SageService) -> Iterator[LayerPage]:
    for path in sage.library.list_paths():
        try:
            yield from sage.page_search.add_pages([sage.library.get_page(path)])
        except (Unreadable, NotFound):
            continue


def _choose_within_budget(
    sage: SageService, pages: Sequence[LayerPage], task: str, language: str, budget: int, separator: str
) -> Iterator[ChosenSections]:
    relevances = sage.page_search.score_sections(TASK_TERMS[task])
    count = sage.get_token_counter()
    yield choose_sections(
        _count_tokens(weigh_sections(pages, task, language, relevances), budget, count), budget, count, separator
    )


def _choose_by_bytes(
    pages: Sequence[LayerPage], task: str, language: str, budget: int, separator: str
) -> ChosenSections:
    """Choose sections by byte length when there is no time to tokenize."""

    # A token is at least one byte, so the byte count is an upper bound for the token count.
    def count(text: str) -> int:
        return len(text.encode())

    parts = _count_tokens(weigh_sections(pages, task, language, {}), budget, count)
    return choose_sections(parts, budget, count, separator)


def weigh_sections(
    pages: Sequence[LayerPage], task: str, language: str, relevances: dict[tuple[str, int], float]
) -> list[CandidateSection]:
    """Return the sections relevant to a task, best first, without token counts."""
    found: list[CandidateSection] = []
    for page in pages:
        for order, section in enumerate(split_sections(page)):
            weight = weigh_section(page, order, relevances.get((page.path, order), 0.0), task, language)
            if weight is not None:
                found.append(CandidateSection(page.name, page.title, section.heading, section.text, order, weight, 0))
    return sorted(found, key=lambda part: (-part.weight, part.page, part.order))


def _count_tokens(parts: Sequence[CandidateSection], budget: int, count: CountTokens) -> list[CandidateSection]:
    found: list[CandidateSection] = []
    total = 0
    for part in parts:
        tokens = count(part.text)
        found.append(CandidateSection(part.page, part.title, part.heading, part.text, part.order, part.weight, tokens))
        total += tokens
        if total > MAX_BUDGET_MULTIPLE * budget + 1000:
            break
    return found


async def build_prompt(sage: SageService, task: str, extra: str) -> str:
    """Return a system prompt with the most relevant guidelines for a task."""
    deadline = sage.make_deadline(STANDARD)
    read = await collect_within(_read_pages(sage), deadline.seconds_left(CHOOSING_SHARE))
    best = {part.page: part for part in reversed(weigh_sections(read.items, task, "", {}))}
    summaries = {page.name: page.summary or page.title for page in read.items}
    ranked = sorted(best.values(), key=lambda part: -part.weight)
    lines = [f"- {' '.join(summaries[part.page].split())}" for part in ranked[:MAX_GUIDELINES]]
    layers = [f"- {layer}: {LAYER_TITLES[layer]}" for layer in LAYERS if sage.library.known_paths(layer)]
    more = ["", "Additional context:", quote_text(extra.strip(), make_boundary())] if extra.strip() else []
    return "\n".join(
        [
            "You are an AI assistant with access to the SAGE Knowledge Base.", "",
            f"Current task: {task}", "Relevant guidelines:", *lines, *more, "",
            "Available knowledge layers:", *layers, "",
            "Read a topic with sage_get_knowledge, look for one with sage_search, and ask sage_get_context for what "
            "this task needs.",
        ]
    )  # fmt: skip


def normalize_language(language: str) -> str:
    plain = language.strip().lower()
    return LANGUAGE_ALIASES.get(plain, plain)


def weigh_section(page: LayerPage, order: int, relevance: float, task: str, language: str) -> float | None:
    """Return the weight of a section for a task, or None if it is not relevant."""
    if page.languages and language not in page.languages:
        return None
    purpose = 0.0 if page.tasks else ANY_TASK_WEIGHT
    if task in page.tasks:
        purpose = TASK_WEIGHT + ONLY_TASK_WEIGHT / len(page.tasks)
    about = LANGUAGE_WEIGHT if page.languages else 0.0
    rank = PRIORITY_WEIGHT * (MIDDLE_PRIORITY - page.priority) / (MIDDLE_PRIORITY - 1)
    if purpose + RELEVANCE_WEIGHT * relevance < MIN_WEIGHT:
        return None
    return purpose + RELEVANCE_WEIGHT * relevance + about + rank - order / 1000
