"""`sage_search`: by words and meaning where the layers are in the index, by words in memory until then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.errors import EmptyQuery, Invalid, KnowledgeError
from knowledge.model import Answer, Json, JsonValue
from knowledge.toolsets.sage.deadline import gather
from knowledge.toolsets.sage.library import ALL
from knowledge.toolsets.sage.page_passages import Found, snippet
from knowledge.toolsets.sage.service import Sage
from knowledge.toolsets.sage.timeouts import STANDARD, Deadline
from knowledge.toolsets.sage.topic_names import ROOT

log = logging.getLogger(__name__)

FOR_THE_INDEX = 0.75
"""What is left of the time is for a search by words, should the index not answer."""


@dataclass(frozen=True, slots=True)
class Result:
    path: str
    title: str
    section: str | None
    text: str
    score: float
    matched_by: str


async def search(sage: Sage, query: str, limit: int, layer: str = ALL) -> Json:
    """The pages that answer a question, best first, each with its best passage."""
    try:
        return await _search(sage, query, limit, layer)
    finally:
        if sage.shelves is not None:  # after the answer, which should not have to share the processor with a start
            sage.shelves.want()


async def _search(sage: Sage, query: str, limit: int, layer: str) -> Json:
    deadline = sage.deadline(STANDARD)
    found, late = await _by_index(sage, query, layer, deadline)
    mode = "words" if found is None else "hybrid"
    complete = not late
    if found is None:
        found, read_all = await _by_words(sage, query, layer, deadline)
        complete = complete and read_all
    results: list[JsonValue] = [_shown(result, query) for result in found[:limit]]
    if not complete:
        raise sage.timeouts.missed(deadline, "sage_search", {"results": results, "total": len(found), "mode": mode})
    return {
        "results": results, "total": len(found), "query_time_ms": deadline.elapsed_ms, "mode": mode, "complete": True,
    }  # fmt: skip


async def _by_index(sage: Sage, query: str, layer: str, deadline: Deadline) -> tuple[list[Result] | None, bool]:
    """None where the index cannot be asked; and whether it was asked and did not answer in time."""
    if sage.shelves is None or not sage.shelves.ready:
        return None, False
    try:
        async with asyncio.timeout(deadline.left(FOR_THE_INDEX)):
            return _pages(sage, await sage.shelves.search(query, layer)), False
    except TimeoutError:
        return None, True
    except Invalid:
        raise
    except KnowledgeError as error:
        log.warning("the index did not answer, so the words do: %s", error)
        return None, False


def _pages(sage: Sage, answer: Answer) -> list[Result]:
    """The best passage of each page that is still there."""
    found: dict[str, Result] = {}
    known = frozenset(sage.library.known() or ())
    for hit in answer.hits:
        path = hit.document.source_path or ""
        if path in known and path not in found:
            section = hit.chunk.section[-1] if hit.chunk.section else None
            found[path] = Result(path, hit.document.title, section, hit.text, hit.score, hit.matched_by)
    return list(found.values())


async def _by_words(sage: Sage, query: str, layer: str, deadline: Deadline) -> tuple[list[Result], bool]:
    """Over the pages in memory, and those that can be read in time; whether that was all of them."""
    complete = True
    if not deadline.memory_only:
        read = await gather(sage.words.follow(sage.library.load()), deadline.left(0.9))
        complete = read.complete
    looked = await gather(_asked(sage, query, layer), max(deadline.left(), 0.01))
    found = looked.items[0] if looked.items else []
    return [_result(item) for item in found], complete and looked.complete


def _asked(sage: Sage, query: str, layer: str) -> Iterator[list[Found]]:
    from knowledge.text import analyzer  # here, since it brings the stemmer

    if not analyzer.question(query, ()).terms:
        raise EmptyQuery("The query holds no word to search for", parameter="query")
    yield sage.words.search(query, layer)


def _result(found: Found) -> Result:
    return Result(found.page.path, found.page.title, found.section, found.text, found.score, "words")


def _shown(result: Result, query: str) -> Json:
    return {
        "path": f"{ROOT}{result.path}", "title": result.title, "snippet": snippet(result.text, query),
        "score": round(result.score, 4), "layer": result.path.partition("/")[0], "section": result.section,
        "matched_by": result.matched_by,
    }  # fmt: skip
