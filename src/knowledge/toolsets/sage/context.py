"""`sage_get_context` and the prompt: what a task needs of the pages, and within how many tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge.errors import NotFound, Unreadable
from knowledge.model import Json
from knowledge.toolsets.sage.deadline import gather
from knowledge.toolsets.sage.library import LAYERS
from knowledge.toolsets.sage.page import Page, sections
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.sage.task_weights import WORDS, spelled, weigh
from knowledge.toolsets.sage.timeouts import CONTEXT, STANDARD
from knowledge.toolsets.sage.token_budget import Chosen, Count, Part, choose

FOR_READING, FOR_CHOOSING = 0.7, 0.95
PLENTY = 4
"""Of sections that weigh little, no more are counted than would fill the budget so many times."""
GUIDELINES = 8

ABOUT = {
    "core": "Core principles",
    "guidelines": "Coding standards",
    "frameworks": "Ways of thinking, and patterns",
    "practices": "Best practices",
}


async def context(sage: Sage, task: str, language: str, budget: int) -> Json:
    """Whole sections for a task, best first, in at most `budget` tokens."""
    deadline = sage.deadline(CONTEXT)
    read = await gather(_reading(sage), deadline.left(FOR_READING))
    pages = read.items
    chosen = await gather(_choosing(sage, pages, task, spelled(language), budget), deadline.left(FOR_CHOOSING))
    if read.complete and chosen.complete:
        found = chosen.items[0]
        return {
            "context": found.text, "sections": list(found.sections), "token_count": found.tokens,
            "load_time_ms": deadline.elapsed_ms, "cut_sections": list(found.cut),
            "sections_left_out": found.left_out, "complete": True,
        }  # fmt: skip
    ready = chosen.items[0] if chosen.items else _without_tokenizer(pages, task, spelled(language), budget)
    counted = ready.tokens if chosen.items else None
    raise sage.timeouts.missed(
        deadline, "sage_get_context",
        {"content": ready.text, "sections": list(ready.sections), "token_count": counted},
    )  # fmt: skip


def _reading(sage: Sage) -> Iterator[Page]:
    for path in sage.library.paths():
        try:
            yield from sage.words.follow([sage.library.page(path)])
        except (Unreadable, NotFound):
            continue


def _choosing(sage: Sage, pages: Sequence[Page], task: str, language: str, budget: int) -> Iterator[Chosen]:
    relevances = sage.words.relevances(WORDS[task])
    count = sage.count()
    yield choose(_counted(weighed(pages, task, language, relevances), budget, count), budget, count)


def _without_tokenizer(pages: Sequence[Page], task: str, language: str, budget: int) -> Chosen:
    """No token is shorter than a byte, so bytes keep the promise when there is no time to count."""

    def count(text: str) -> int:
        return len(text.encode())

    return choose(_counted(weighed(pages, task, language, {}), budget, count), budget, count)


def weighed(pages: Sequence[Page], task: str, language: str, relevances: dict[tuple[str, int], float]) -> list[Part]:
    """The sections that have a place in the task's context, best first, not yet counted."""
    found: list[Part] = []
    for page in pages:
        for order, section in enumerate(sections(page)):
            weight = weigh(page, order, relevances.get((page.path, order), 0.0), task, language)
            if weight is not None:
                found.append(Part(page.name, page.title, section.heading, section.text, order, weight, 0))
    return sorted(found, key=lambda part: (-part.weight, part.page, part.order))


def _counted(parts: Sequence[Part], budget: int, count: Count) -> list[Part]:
    found: list[Part] = []
    total = 0
    for part in parts:
        tokens = count(part.text)
        found.append(Part(part.page, part.title, part.heading, part.text, part.order, part.weight, tokens))
        total += tokens
        if total > PLENTY * budget + 1000:
            break
    return found


async def prompt(sage: Sage, task: str, given: str) -> str:
    """A system prompt for a task, with the lines that matter most for it."""
    deadline = sage.deadline(STANDARD)
    read = await gather(_reading(sage), deadline.left(FOR_CHOOSING))
    best = {part.page: part for part in reversed(weighed(read.items, task, "", {}))}
    summaries = {page.name: page.summary or page.title for page in read.items}
    ranked = sorted(best.values(), key=lambda part: -part.weight)
    lines = [f"- {summaries[part.page]}" for part in ranked[:GUIDELINES]]
    layers = [f"- {layer}: {ABOUT[layer]}" for layer in LAYERS if sage.library.known(layer)]
    more = ["", "Additional context:", given.strip()] if given.strip() else []
    return "\n".join(
        [
            "You are an AI assistant with access to the SAGE Knowledge Base.", "",
            f"Current task: {task}", "Relevant guidelines:", *lines, *more, "",
            "Available knowledge layers:", *layers, "",
            "Read a topic with sage_get_knowledge, look for one with sage_search, and ask sage_get_context for what "
            "this task needs.",
        ]
    )  # fmt: skip
