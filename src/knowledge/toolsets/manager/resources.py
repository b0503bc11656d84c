"""`corpus://N`: every corpus as a resource, and its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge.errors import InvalidCorpusId
from knowledge.model import Collection, Document
from knowledge.toolsets.base import Call, Resource, ResourceTemplate, ResourceText
from knowledge.toolsets.manager.fan_out import everything
from knowledge.toolsets.manager.list import curation, newest
from knowledge.toolsets.manager.passage_text import file_name, one_line
from knowledge.toolsets.manager.query import corpus_id

SCHEME = "corpus://"


class CorpusResources:
    templates: Sequence[ResourceTemplate] = (
        ResourceTemplate(f"{SCHEME}{{corpus_id}}", "Corpus by ID", "What a corpus holds, and how to query it"),
    )

    async def list(self, call: Call) -> list[Resource]:
        return [
            Resource(
                f"{SCHEME}{corpus.id}", f"Corpus: {one_line(corpus.title)}", corpus.description, "application/json"
            )
            async for corpus in everything(call.engine.corpora)
        ]

    async def read(self, call: Call, uri: str) -> ResourceText | None:
        if not uri.lower().startswith(SCHEME):
            return None
        corpus = await call.engine.corpus(_number(uri[len(SCHEME) :].rstrip("/")))
        return ResourceText(uri, page(corpus, await newest(call.engine, corpus)))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidCorpusId(f"Invalid corpus ID: {text[:40]}", parameter="uri")
    return corpus_id(int(text))


def page(corpus: Collection, documents: Sequence[Document]) -> str:
    """The corpus in Markdown, for a model to read."""
    return "\n".join(_lines(corpus, documents))


def _lines(corpus: Collection, documents: Sequence[Document]) -> Iterator[str]:
    about = curation(corpus)
    yield from (f"# {one_line(corpus.title)}", "", "## Corpus Information")
    yield f"- **ID**: {corpus.id}"
    yield f"- **Name**: {corpus.name}"
    yield f"- **Category**: {about.category}"
    if about.version:
        yield f"- **Version**: {one_line(about.version)}"
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
        yield from (f"- {file_name(document)} ({document.chunk_count} chunks)" for document in documents)
        if len(documents) < corpus.document_count:
            yield f"- and {corpus.document_count - len(documents)} more"
    yield from ("", "## Usage", "", f'Ask it with `query_corpus(corpus_id={corpus.id}, query="…")`.', "")
