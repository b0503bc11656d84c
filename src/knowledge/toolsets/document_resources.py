"""The text of documents as MCP resources: `document://{uid}{?from,count}`, in parts that fit into one answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from knowledge.errors import DocumentNotFound, InvalidParameter
from knowledge.model import Chunk, Document, Ref
from knowledge.toolsets.answer_budget import cut_text, take_within
from knowledge.toolsets.base import Resource, ResourceTemplate, ResourceText, ToolCall
from knowledge.toolsets.hidden_characters import strip_hidden
from knowledge.toolsets.quoting import WARNING, format_origin, make_boundary, quote_text
from knowledge.toolsets.values import DOCUMENT_SCHEME, make_link, parse_ref

MAX_CHUNKS_PER_READ = 500
CHUNK_SEPARATOR = "\n\n"
FRAME_CHARS = 700
"""Characters of our own words around the text of a part, without the origin."""


def parse_link(uri: str) -> tuple[Ref, int, int | None] | None:
    """Return document, first chunk and number of chunks of a URI; None if it has another scheme."""
    if not uri.lower().startswith(f"{DOCUMENT_SCHEME}://"):
        return None
    try:
        parts = urlsplit(uri)
        ref, given = parse_ref(parts.netloc), dict(parse_qsl(parts.query))
    except ValueError:
        ref, given = None, {}
    if ref is None or parts.path.strip("/"):
        raise DocumentNotFound(f"Document not found: {uri[:200]}", uri=uri[:200])
    count = _parse_number(given, "count", 1) if "count" in given else None
    return ref, _parse_number(given, "from", 0), count


def _parse_number(given: dict[str, str], name: str, minimum: int) -> int:
    text = given.get(name, str(minimum))
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < minimum:
        raise InvalidParameter(f"Invalid value for '{name}': must be a number from {minimum}", parameter=name)
    return int(text)


class DocumentResources:
    """The documents that the caller may read; they are not listed, because there may be millions."""

    templates: Sequence[ResourceTemplate] = (
        ResourceTemplate(
            f"{DOCUMENT_SCHEME}://{{uid}}{{?from,count}}",
            "Document",
            "The text of a document, or `count` passages of it from index `from`; search results link to it",
            "text/plain",
        ),
    )

    async def list(self, call: ToolCall) -> list[Resource]:  # noqa: ARG002
        return []

    async def read(self, call: ToolCall, uri: str) -> ResourceText | None:
        parsed = parse_link(uri)
        if parsed is None:
            return None
        ref, first, count = parsed
        document = await call.engine.document(ref)
        limit = MAX_CHUNKS_PER_READ if count is None else min(count, MAX_CHUNKS_PER_READ)
        chunks = await call.engine.chunks(document.id, first, limit)
        return ResourceText(uri, render_part(document, chunks, first, count, call.limits.answer_chars), "text/plain")


def render_part(document: Document, chunks: Sequence[Chunk], first: int, count: int | None, max_chars: int) -> str:
    """Return the chunks that fit, with the range that they are and the link to the next part."""
    removed: Counter[str] = Counter()
    origin, boundary = cut_text(strip_hidden(format_origin(document), removed), max_chars // 4), make_boundary()
    budget = max_chars - len(origin) - FRAME_CHARS
    shown = take_within(chunks, [len(chunk.text) + len(CHUNK_SEPARATOR) for chunk in chunks], budget)
    if not shown:
        return f"Document {document.uid} has {document.chunk_count} passages, none from index {first}. Origin: {origin}"
    last = shown[-1].index
    text = strip_hidden(CHUNK_SEPARATOR.join(chunk.text for chunk in shown), removed)
    cut = f" Cut after {budget} of {len(text)} characters." if len(text) > budget else ""
    hidden = f" Removed characters: {json.dumps(removed)}." if removed else ""
    following = [f"Next part: {make_link(document.uid, last + 1, count or len(shown))}"]
    return "\n".join(
        [
            f"Passages {shown[0].index} to {last} of {document.chunk_count} (counted from 0) of document "
            f"{document.uid}. Origin: {origin}",
            f"The text between the lines BEGIN {boundary} and END {boundary} is quoted from it. {WARNING}{cut}{hidden}",
            quote_text(text[:budget], boundary),
            *(following if last + 1 < document.chunk_count else ["This is the end of the document."]),
        ]
    )
