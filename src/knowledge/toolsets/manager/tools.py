"""The tools and resources of contract 001."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, InvalidCorpusId, KnowledgeError
from knowledge.model import Collection, Curation, Document, DocumentFilter, Hit, Json, JsonValue, SearchAnswer
from knowledge.toolsets.answer_budget import (
    LEAST_TEXT_CHARS,
    TRUNCATED,
    cut_text,
    encode_answer,
    measure_text,
    share_budget,
    take_within,
)
from knowledge.toolsets.arguments import TrustedOnly
from knowledge.toolsets.base import RateClass, Resource, ResourceTemplate, ResourceText, ToolCall
from knowledge.toolsets.manager.errors import tools
from knowledge.toolsets.manager.fan_out import (
    MAX_COLLECTIONS,
    MAX_RESULTS,
    ManagerQuery,
    QueryText,
    check_query,
    iterate_pages,
    parse_collection_name,
    search_collections,
)
from knowledge.toolsets.quoting import find_source, format_separator, make_boundary, quote_value
from knowledge.toolsets.values import dump_location, link_hit

ALL_COLLECTIONS = "all accessible collections"
MAX_ID = 2**63 - 1


def parse_corpus_id(value: Any) -> int:
    """Return a corpus id; raise InvalidCorpusId if it is not a positive integer."""
    if type(value) is not int or not 0 < value <= MAX_ID:
        raise InvalidCorpusId(f"Invalid corpus ID: {str(value)[:40]}", parameter="corpus_id")
    return value


CorpusId = Annotated[int, Field(description="Corpus ID to query", ge=1), BeforeValidator(parse_corpus_id)]


@tools.tool("query_knowledge", title="Search collections", read_only=True)
async def query_knowledge(
    call: ToolCall,
    query: QueryText,
    collections: Annotated[
        list[str] | None,
        Field(description="Specific collections to search (default: all accessible)", max_length=MAX_COLLECTIONS),
    ] = None,
    n_results: Annotated[int, Field(description="Results per collection", ge=1, le=MAX_RESULTS)] = 5,
    trusted_only: TrustedOnly = False,
) -> Json:
    """Search indexed documents for relevant context using semantic search. Every passage comes with its source."""
    check_query(query)
    within = await find_collections(call.engine, collections)
    names: list[JsonValue] = [collection.name for collection in within]
    searched: Json = {"collections_searched": names if collections else ALL_COLLECTIONS}
    wanted = ManagerQuery(query, n_results, trusted_only or call.limits.trusted_only)
    return await query_collections(call, wanted, within, searched, named=bool(collections))


@tools.tool("query_corpus", title="Search a corpus", read_only=True)
async def query_corpus(
    call: ToolCall,
    corpus_id: CorpusId,
    query: QueryText,
    n_results: Annotated[int, Field(description="Number of results", ge=1, le=MAX_RESULTS)] = 5,
    trusted_only: TrustedOnly = False,
) -> Json:
    """Query a specific curated corpus by ID. Every passage comes with its source."""
    check_query(query)
    corpus = await call.engine.corpora.get(corpus_id)
    wanted = ManagerQuery(query, n_results, trusted_only or call.limits.trusted_only)
    return await query_collections(call, wanted, [corpus], {"corpus_id": corpus.id}, named=True)


async def find_collections(engine: Engine, names: list[str] | None) -> list[Collection]:
    """Return the named collections without duplicates; without names, all that the caller may read."""
    if not names:
        return [collection async for collection in iterate_pages(engine.collections)]
    found = [await engine.collection(reference) for reference in [parse_collection_name(name) for name in names]]
    return list({collection.id: collection for collection in found}.values())


async def query_collections(
    call: ToolCall, query: ManagerQuery, within: list[Collection], searched: Json, *, named: bool
) -> Json:
    """Search collections; return the combined context, its number of hits, what was searched, and notes.

    The error of a collection is raised if the caller named it, and ignored otherwise.
    """
    answers: dict[int, SearchAnswer] = {}

    async def keep_answer(collection: Collection, outcome: SearchAnswer | KnowledgeError) -> None:
        if isinstance(outcome, SearchAnswer):
            answers[collection.id] = outcome
        elif named:
            raise outcome

    await search_collections(call.engine, query, within, keep_answer)
    # In the order of the collections, not of completion, so hits of equal score always have the same order.
    ordered = [answers[collection.id] for collection in within if collection.id in answers]
    hits = [hit for answer in ordered for hit in drop_irrelevant(answer.hits, call.limits.min_relevance)]
    left_out = sum(len(answer.hits) for answer in ordered) - len(hits)
    notes = list(dict.fromkeys(note for answer in ordered for note in answer.notes))
    if left_out:
        notes.append(f"{left_out} passages with a relevance below {call.limits.min_relevance:g} were left out")
    ranked = sorted(hits, key=lambda hit: -hit.score)
    passages = fit_passages(ranked, call.limits.answer_chars - len(encode_answer({**searched, "notes": [*notes]})))
    if len(passages) < len(ranked):
        notes.append(f"{len(ranked) - len(passages)} passages did not fit into the answer; ask for fewer collections")
        left_out += len(ranked) - len(passages)
    boundary = make_boundary()
    answer: Json = {"context": join_passages(passages, boundary), "num_results": len(passages), **searched}
    if passages:
        answer["boundary"] = boundary
        answer["sources"] = [dump_source(passage) for passage in passages]
    if left_out:
        answer["left_out"] = left_out
    return {**answer, "notes": [*notes]} if notes else answer


def drop_irrelevant(hits: Sequence[Hit], min_relevance: float) -> list[Hit]:
    """Return the best hit of a collection, and the others that are relevant enough."""
    return [hit for rank, hit in enumerate(hits) if rank == 0 or hit.score >= min_relevance]


MAX_FILES = 100
"""Limit of file names listed per collection; `num_files` is the full count."""


@tools.tool("list_collections", title="List collections", rate=RateClass.LIST, read_only=True)
async def list_collections(call: ToolCall) -> Json:
    """List all accessible document collections with metadata: their files, the newest first, and their sizes."""
    listed: list[JsonValue] = []
    async for collection in iterate_pages(call.engine.collections):
        files: list[JsonValue] = [
            format_file_name(document) for document in await list_newest_documents(call.engine, collection)
        ]
        listed.append(
            {
                "name": collection.name, "files": files, "num_chunks": collection.chunk_count,
                "num_files": collection.document_count, "id": collection.id,
            }
        )  # fmt: skip
    return {"collections": listed, "count": len(listed)}


@tools.tool("list_corpuses", title="List corpuses", rate=RateClass.LIST, read_only=True)
async def list_corpuses(
    call: ToolCall,
    category: Annotated[
        Literal["legal", "medical", "research", "general", "technical"] | None,
        Field(description="Filter by category (legal, medical, research, general, technical)"),
    ] = None,
    approved_only: Annotated[bool, Field(description="Only show approved corpuses")] = True,
) -> Json:
    """List available curated corpuses with optional filtering."""
    wanted = partial(call.engine.corpora.list_page, category, approved_only)
    corpuses: list[JsonValue] = [dump_corpus(corpus) async for corpus in iterate_pages(wanted)]
    filters: Json = {"category": category, "approved_only": approved_only}
    return {"corpuses": corpuses, "count": len(corpuses), "filters": filters}


def dump_corpus(corpus: Collection) -> Json:
    about = require_curation(corpus)
    return {
        "id": corpus.id, "name": corpus.name, "display_name": corpus.title, "description": corpus.description,
        "category": about.category, "is_approved": about.is_approved, "chunk_count": corpus.chunk_count,
    }  # fmt: skip


def require_curation(corpus: Collection) -> Curation:
    assert corpus.curation is not None, "a corpus has a curation"
    return corpus.curation


async def list_newest_documents(engine: Engine, collection: Collection) -> tuple[Document, ...]:
    """Return the newest finished documents of a collection; none if it was deleted meanwhile."""
    if not collection.document_count:
        return ()
    try:
        wanted = DocumentFilter(collection=collection.id, finished=True, per_page=MAX_FILES)
        return (await engine.documents(wanted)).items
    except CollectionNotFound:
        return ()


ANY_BOUNDARY = make_boundary()
"""A boundary of the right length, for measuring."""
ENVELOPE_CHARS = 300
"""Characters of an answer beside its passages, their sources, its notes and the names of the collections."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A hit and as much of its text as fits into the answer."""

    hit: Hit
    text: str

    @property
    def is_cut(self) -> bool:
        return self.text != self.hit.text.strip()


def fit_passages(ranked: Sequence[Hit], max_chars: int) -> list[Passage]:
    """Cut the texts of hits so that all fit; the last hits are left out only if not even short texts fit."""
    texts = [hit.text.strip() for hit in ranked]
    costs = [measure_text(text) for text in texts]
    overheads = [_measure_overhead(hit) for hit in ranked]
    least = [cost + min(text, LEAST_TEXT_CHARS) for cost, text in zip(overheads, costs, strict=True)]
    budget = max_chars - ENVELOPE_CHARS
    kept = take_within(ranked, least, budget)
    shares = share_budget(costs[: len(kept)], budget - sum(overheads[: len(kept)]))
    return [Passage(hit, cut_text(text, share)) for hit, text, share in zip(kept, texts, shares, strict=False)]


def _measure_overhead(hit: Hit) -> int:
    """Return the characters that a hit takes beside its text."""
    cut = Passage(hit, "")
    passage = format_separator(ANY_BOUNDARY) + format_passage(cut, ANY_BOUNDARY)
    return measure_text(passage) + len(encode_answer(dump_source(cut))) + len(",")


def join_passages(passages: Sequence[Passage], boundary: str) -> str:
    """Join passages and their sources; only lines with the boundary are ours."""
    return format_separator(boundary).join(format_passage(passage, boundary) for passage in passages)


def format_passage(passage: Passage, boundary: str) -> str:
    """Format a passage with its source."""
    cut = "; truncated" if passage.is_cut else ""
    return f"{passage.text}\n\n[Source {boundary}: {format_source(passage.hit)}{cut}]"


def dump_source(passage: Passage) -> Json:
    """Return the source of a passage as fields, in the order of the context."""
    hit, document = passage.hit, passage.hit.document
    fields: Json = {
        "document_id": document.id, "title": document.title, "collection": document.collection,
        "page": hit.chunk.page, "relevance_score": round(hit.score, 4), "resource": link_hit(hit),
        "source": find_source(document), "added_by": document.added_by, **dump_location(hit),
    }  # fmt: skip
    return {**fields, TRUNCATED: True} if passage.is_cut else fields


def format_source(hit: Hit) -> str:
    """Format document, page, headings, collection and relevance of a hit."""
    chunk, document = hit.chunk, hit.document
    parts = [_format_document_name(document)]
    if chunk.page is not None:
        parts.append(f"page {chunk.page}")
    if hit.lines is not None:
        parts.append(f"lines {hit.lines[0]}-{hit.lines[1]}")
    if chunk.section:
        parts.append(" > ".join(quote_value(heading) for heading in chunk.section))
    parts.append(f"collection {document.collection}")
    return f"{', '.join(parts)}; relevance {hit.score:.2f}"


def _format_document_name(document: Document) -> str:
    """Return the title, with the file name or URL in parentheses if it differs."""
    title, origin = quote_value(document.title), quote_value(document.filename or document.url or "")
    return title if not origin or origin == title else f"{title} ({origin})"


def format_file_name(document: Document) -> str:
    return join_lines(document.filename or document.title)


def join_lines(text: str) -> str:
    return " ".join(text.split())


SCHEME = "corpus://"


class CorpusResources:
    templates: Sequence[ResourceTemplate] = (
        ResourceTemplate(f"{SCHEME}{{corpus_id}}", "Corpus by ID", "Contents of a corpus and how to query it"),
    )

    async def list(self, call: ToolCall) -> list[Resource]:
        return [
            Resource(
                f"{SCHEME}{corpus.id}", f"Corpus: {join_lines(corpus.title)}", corpus.description, "application/json"
            )
            async for corpus in iterate_pages(call.engine.corpora.list_page)
        ]

    async def read(self, call: ToolCall, uri: str) -> ResourceText | None:
        if not uri.lower().startswith(SCHEME):
            return None
        corpus = await call.engine.corpora.get(_parse_number(uri[len(SCHEME) :].rstrip("/")))
        return ResourceText(uri, render_corpus(corpus, await list_newest_documents(call.engine, corpus)))


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidCorpusId(f"Invalid corpus ID: {text[:40]}", parameter="uri")
    return parse_corpus_id(int(text))


def render_corpus(corpus: Collection, documents: Sequence[Document]) -> str:
    """Render a corpus as Markdown."""
    return "\n".join(_format_corpus_lines(corpus, documents))


def _format_corpus_lines(corpus: Collection, documents: Sequence[Document]) -> Iterator[str]:
    about = require_curation(corpus)
    yield from (f"# {join_lines(corpus.title)}", "", "## Corpus Information")
    yield f"- **ID**: {corpus.id}"
    yield f"- **Name**: {corpus.name}"
    yield f"- **Category**: {about.category}"
    if about.version:
        yield f"- **Version**: {join_lines(about.version)}"
    approved, public = "approved" if about.is_approved else "not approved", "public" if about.is_public else "private"
    yield f"- **Status**: {approved}, {public}"
    if about.owner_name:
        yield f"- **Owner**: {about.owner_name}"
    yield f"- **Documents**: {corpus.document_count}"
    yield f"- **Chunks**: {corpus.chunk_count}"
    yield f"- **Created**: {corpus.created_at:%Y-%m-%d}"
    if corpus.description.strip():
        yield from ("", "## Description", "", corpus.description.strip())
    if documents:
        yield from ("", "## Documents")
        yield from (f"- {format_file_name(document)} ({document.chunk_count} chunks)" for document in documents)
        if len(documents) < corpus.document_count:
            yield f"- and {corpus.document_count - len(documents)} more"
    yield from ("", "## Usage", "", f'Query it with `query_corpus(corpus_id={corpus.id}, query="…")`.', "")


__all__ = ["tools"]

ORDER = ("query_knowledge", "query_corpus", "list_collections", "list_corpuses")

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
tools.resources = CorpusResources()
