"""The two tools that ChatGPT connectors and deep research require: `search` and `fetch`.

The names, the parameters and the fields of the answers are OpenAI's: https://platform.openai.com/docs/mcp
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import Field

from knowledge.errors import DocumentNotFound, InvalidParameter
from knowledge.model import Chunk, Document, Hit, Json, JsonValue, Query, SearchFilter
from knowledge.toolsets.answer_budget import MAX_FIELD_CHARS, cut_text, encode_answer, measure_text, take_within
from knowledge.toolsets.base import ToolCall, Toolset
from knowledge.toolsets.connector.errors import refuse
from knowledge.toolsets.document_resources import CHUNK_SEPARATOR, MAX_CHUNKS_PER_READ
from knowledge.toolsets.quoting import find_source
from knowledge.toolsets.values import format_timestamp

MAX_RESULTS = 10
MAX_TITLE_CHARS, MAX_URL_CHARS = 200, 2000
TITLE_SEPARATOR = " > "
RESERVED_CHARS = 500
"""Characters of an answer that are kept free for the counts of removed characters."""

tools = Toolset(
    name="connector",
    format_error=refuse,
    standalone=True,
    instructions=(
        "The user's own documents. search finds passages by a question; fetch returns the text from a passage on, and "
        "its metadata.next_id is the id of the text that follows. Cite the url of a result."
    ),
)


@tools.tool("search", title="Search documents", read_only=True)
async def search(
    call: ToolCall,
    query: Annotated[str, Field(description="Question or keywords", min_length=1, max_length=10_000)],
) -> Json:
    """Search the documents with a question in natural language, keywords or names. Returns up to 10 passages, best
    first, each with id, title and url. Call fetch with an id to read the text."""
    if not query.strip():
        raise InvalidParameter("Invalid value for 'query': must not be empty", parameter="query")
    within = SearchFilter(trusted_only=call.limits.trusted_only)
    answer = await call.engine.search(Query(text=query, limit=MAX_RESULTS, filter=within))
    results: list[JsonValue] = [dump_result(call, hit) for hit in answer.hits]
    costs = [len(encode_answer({"": result})) for result in results]
    return {"results": [*take_within(results, costs, call.limits.answer_chars - RESERVED_CHARS)]}


def dump_result(call: ToolCall, hit: Hit) -> Json:
    first = hit.indexes[0]
    return {
        "id": format_id(hit.document.uid, first),
        "title": make_title(hit.document, hit.chunk),
        "url": make_url(call, hit.document, first),
    }


@tools.tool("fetch", title="Read a document", read_only=True)
async def fetch(
    call: ToolCall,
    id: Annotated[
        str, Field(description="id of a search result, or next_id of a fetched one", min_length=1, max_length=200)
    ],
) -> Json:
    """Read the text of a document from a passage on, as much as fits into one answer. If more text follows,
    metadata.next_id is the id to fetch next; metadata.first_id is the beginning of the document."""
    uid, first = parse_id(id)
    document = await call.engine.document(uid)
    chunks = await call.engine.chunks(document.id, first, MAX_CHUNKS_PER_READ)
    if not chunks:
        raise DocumentNotFound(f"Document {uid} has {document.chunk_count} passages, none at {first}")
    return dump_part(call, document, chunks)


def dump_part(call: ToolCall, document: Document, chunks: Sequence[Chunk]) -> Json:
    """Return as many chunks as fit, with the id of the next one."""
    first = chunks[0].index
    body: Json = {
        "id": format_id(document.uid, first),
        "title": make_title(document),
        "text": "",
        "url": make_url(call, document, first),
        "metadata": dump_metadata(document, chunks[0], document.chunk_count),
    }
    budget = call.limits.answer_chars - len(encode_answer(body)) - RESERVED_CHARS
    shown = take_within(chunks, [measure_text(chunk.text + CHUNK_SEPARATOR) for chunk in chunks], budget)
    text = CHUNK_SEPARATOR.join(chunk.text for chunk in shown)
    return {**body, "text": text, "metadata": dump_metadata(document, shown[0], shown[-1].index + 1)}


def dump_metadata(document: Document, first: Chunk, following: int) -> Json:
    """Return what is known about a part: where it is, what follows it, and where the document comes from."""
    facts: Json = {
        "next_id": format_id(document.uid, following) if following < document.chunk_count else None,
        "first_id": format_id(document.uid, 0),
        "passages": f"{first.index} to {following - 1} of {document.chunk_count}, counted from 0",
        "section": TITLE_SEPARATOR.join(first.section) or None,
        "page": first.page,
        "line": None if first.lines is None else first.lines[0],
        "collection": document.collection,
        "format": document.doc_type,
        "added_at": format_timestamp(document.created_at),
        "added_by": document.added_by,
        "source": find_source(document),
    }
    return {
        key: cut_text(value, MAX_FIELD_CHARS) if isinstance(value, str) else value
        for key, value in facts.items()
        if value is not None
    }


def make_title(document: Document, chunk: Chunk | None = None) -> str:
    """Return the title of a document, with the headings above a passage: results have no other text to choose by."""
    headings = [] if chunk is None else [heading for heading in chunk.section if heading != document.title]
    return cut_text(TITLE_SEPARATOR.join([document.title, *headings]), MAX_TITLE_CHARS)


def make_url(call: ToolCall, document: Document, chunk: int) -> str:
    """Return the web address of a document, otherwise the address on this server that opens it at a passage."""
    url = document.url or ""
    is_web = url.lower().startswith(("http://", "https://")) and measure_text(url) <= MAX_URL_CHARS
    return url if is_web else call.links.link_passage(document.uid, chunk)


def format_id(document: UUID, chunk: int) -> str:
    return f"{document}:{chunk}"


def parse_id(text: str) -> tuple[UUID, int]:
    """Parse `UID:CHUNK`; a UID alone is the beginning of the document."""
    uid, _, chunk = text.strip().partition(":")
    try:
        if (chunk or "0").isascii() and (chunk or "0").isdecimal() and len(chunk) < 10:
            return UUID(uid), int(chunk or "0")
    except ValueError:
        pass
    raise InvalidParameter(
        f"Invalid value for 'id': must be a document's UUID, a colon and the number of a passage, got '{text[:80]}'",
        hint="Call search, and use an id that it returned or a next_id that fetch returned.",
        parameter="id",
    )
