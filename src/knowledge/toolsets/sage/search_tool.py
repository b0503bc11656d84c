"""`sage_search`: hybrid search in the layer index, or keyword search in memory until the index is ready."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from knowledge.errors import EmptyQuery, Invalid, KnowledgeError
from knowledge.model import Json, JsonValue, SearchAnswer
from knowledge.toolsets.sage.library import ALL_LAYERS
from knowledge.toolsets.sage.page_search import PageHit, make_snippet
from knowledge.toolsets.sage.service import SageService
from knowledge.toolsets.sage.timeouts import STANDARD, Deadline, collect_within
from knowledge.toolsets.sage.topic_names import CONTENT_PREFIX

log = logging.getLogger(__name__)

INDEX_SHARE = 0.75
"""Share of the deadline for the index; the rest is for the keyword search if the index does not answer."""


@dataclass(frozen=True, slots=True)
class PageResult:
    path: str
    title: str
    section: str | None
    text: str
    score: float
    matched_by: str


async def search_pages(sage: SageService, query: str, limit: int, layer: str = ALL_LAYERS) -> Json:
    """Return the matching pages, best first, each with its best passage."""
    try:
        return await _search_before_deadline(sage, query, limit, layer)
    finally:
        if sage.layer_index is not None:  # afterwards, so that opening the engine does not delay this answer
            sage.layer_index.request_engine()


async def _search_before_deadline(sage: SageService, query: str, limit: int, layer: str) -> Json:
    deadline = sage.make_deadline(STANDARD)
    found, late = await _search_index(sage, query, layer, deadline)
    mode = "words" if found is None else "hybrid"
    complete = not late
    if found is None:
        found, read_all = await _search_memory(sage, query, layer, deadline)
        complete = complete and read_all
    results: list[JsonValue] = [_dump_result(result, query) for result in found[:limit]]
    if not complete:
        raise sage.timeouts.record_miss(
            deadline, "sage_search", {"results": results, "total": len(found), "mode": mode}
        )
    return {
        "results": results, "total": len(found), "query_time_ms": deadline.elapsed_ms, "mode": mode, "complete": True,
    }  # fmt: skip


async def _search_index(
    sage: SageService, query: str, layer: str, deadline: Deadline
) -> tuple[list[PageResult] | None, bool]:
    """Return the results, or None if the index is not available, and whether it timed out."""
    if sage.layer_index is None or not sage.layer_index.is_ready:
        return None, False
    try:
        async with asyncio.timeout(deadline.seconds_left(INDEX_SHARE)):
            return _group_by_page(sage, await sage.layer_index.search(query, layer)), False
    except TimeoutError:
        return None, True
    except Invalid:
        raise
    except KnowledgeError as error:
        log.warning("layer index failed, searching keywords only: %s", error)
        return None, False


def _group_by_page(sage: SageService, answer: SearchAnswer) -> list[PageResult]:
    """Return the best hit of each page that still exists."""
    found: dict[str, PageResult] = {}
    known = frozenset(sage.library.known_paths() or ())
    for hit in answer.hits:
        path = hit.document.source_path or ""
        if path in known and path not in found:
            section = hit.chunk.section[-1] if hit.chunk.section else None
            found[path] = PageResult(path, hit.document.title, section, hit.text, hit.score, hit.matched_by)
    return list(found.values())


async def _search_memory(
    sage: SageService, query: str, layer: str, deadline: Deadline
) -> tuple[list[PageResult], bool]:
    """Search the pages that are read before the deadline, and return whether these were all pages."""
    complete = True
    if not deadline.is_memory_only:
        read = await collect_within(sage.page_search.add_pages(sage.library.load_pages()), deadline.seconds_left(0.9))
        complete = read.complete
    searched = await collect_within(_query_memory(sage, query, layer), max(deadline.seconds_left(), 0.01))
    found = searched.items[0] if searched.items else []
    return [_to_result(item) for item in found], complete and searched.complete


def _query_memory(sage: SageService, query: str, layer: str) -> Iterator[list[PageHit]]:
    from knowledge.text import analyzer  # imported here because it loads the stemmer

    if not analyzer.analyse_question(query, ()).terms:
        raise EmptyQuery("The query contains no searchable word", parameter="query")
    yield sage.page_search.search(query, layer)


def _to_result(found: PageHit) -> PageResult:
    return PageResult(found.page.path, found.page.title, found.section, found.text, found.score, "words")


def _dump_result(result: PageResult, query: str) -> Json:
    return {
        "path": f"{CONTENT_PREFIX}{result.path}", "title": result.title, "snippet": make_snippet(result.text, query),
        "score": round(result.score, 4), "layer": result.path.partition("/")[0], "section": result.section,
        "matched_by": result.matched_by,
    }  # fmt: skip
