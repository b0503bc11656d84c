"""JSON of search queries, hits and answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias
from uuid import UUID

from pydantic import Field

from knowledge.errors import Invalid
from knowledge.model import (
    Chunk,
    CollectionRef,
    FacetName,
    Hit,
    Json,
    JsonValue,
    Query,
    SearchAnswer,
    SearchDetails,
    SearchFilter,
    SearchMode,
)
from knowledge.model.suggestions import Suggestion
from knowledge.wire.documents import DocumentFields, LinesField, join_section, list_document_fields, load_document
from knowledge.wire.facets import IS_NONE, FacetsField, dump_facets, load_facets
from knowledge.wire.requests import Body, Reference
from knowledge.wire.values import (
    COLLECTION_TAG,
    choose_collection,
    dump_collection_ref,
    dump_ref,
    dump_timestamp_or_none,
    load_collection_ref,
    load_date,
    load_ref,
    split_tags,
)


@dataclass(frozen=True)
class ChunkMetadataShape:
    """Position of a chunk in its document."""

    page: int | None
    section_header: str | None
    section: tuple[str, ...]
    lines: LinesField = None


@dataclass(frozen=True)
class _HitFields:
    """Fields of a hit other than those of its document."""

    chunk_id: int
    chunk_uid: UUID
    document_id: int
    document_uid: UUID
    score: float
    matched_by: str
    text: str
    chunk_index: int
    chunk_indexes: tuple[int, int]
    chunk_text: str | None
    chunk_metadata: ChunkMetadataShape
    explanation: Json | None


@dataclass(frozen=True)
class HitShape(DocumentFields, _HitFields):
    """A search hit: a passage and its document."""

    highlights: Annotated[
        tuple[tuple[int, int], ...] | None,
        Field(
            exclude_if=IS_NONE,
            description="With `highlight`: start and end of the parts of `text` that match, in UTF-16 code units.",
        ),
    ] = None
    lines: LinesField = None
    location: Annotated[
        str | None,
        Field(exclude_if=IS_NONE, description="Of source code: its path and the lines of `text`, as PATH:FIRST-LAST."),
    ] = None

    @classmethod
    def from_hit(cls, hit: Hit) -> HitShape:
        chunk, document, (first, last) = hit.chunk, hit.document, hit.indexes
        return cls(
            chunk.id,
            chunk.uid,
            document.id,
            document.uid,
            hit.score,
            hit.matched_by,
            hit.text,
            chunk.index,
            hit.indexes,
            chunk.text if first < last else None,
            ChunkMetadataShape(chunk.page, join_section(chunk), chunk.section, chunk.lines),
            hit.explanation,
            *[*list_document_fields(document), hit.highlights, hit.lines, hit.lines and hit.location],
        )

    def to_hit(self) -> Hit:
        document = load_document(self, self.document_id, self.document_uid)
        found = self.score, self.matched_by, self.text, self.chunk_indexes
        return Hit(self._to_chunk(), document, *found, self.explanation, self.highlights, self.lines)

    def _to_chunk(self) -> Chunk:
        return Chunk(
            id=self.chunk_id,
            uid=self.chunk_uid,
            document_id=self.document_id,
            index=self.chunk_index,
            text=self.text if self.chunk_text is None else self.chunk_text,
            page=self.chunk_metadata.page,
            section=self.chunk_metadata.section,
            lines=self.chunk_metadata.lines,
        )


@dataclass(frozen=True)
class AnswerShape:
    """The answer to a search query."""

    query: str
    results: tuple[HitShape, ...]
    total_matches: Annotated[
        int,
        Field(
            description="Passages among the candidates that are at or above the threshold. The candidates are the "
            "chunks nearest to the question by words and by meaning, at most 100 each, whether or not they answer it."
        ),
    ]
    returned: int
    mode: SearchMode
    notes: tuple[str, ...]
    explanation: Json | None
    relevant: Annotated[
        int | None,
        Field(
            exclude_if=IS_NONE,
            description="Passages among `total_matches` with a score of at least 0.3. This field and the following "
            "ones are sent if `highlight`, `facets` or `typing` is.",
        ),
    ] = None
    facets: FacetsField = None
    exhaustive: Annotated[
        bool | None,
        Field(exclude_if=IS_NONE, description="False: counts are of the candidates, not of all documents."),
    ] = None
    misspelt: Annotated[
        dict[str, tuple[str, ...]] | None,
        Field(exclude_if=IS_NONE, description="Words that no passage contains, with what was searched instead."),
    ] = None
    unknown_words: Annotated[
        tuple[str, ...] | None,
        Field(exclude_if=IS_NONE, description="Words that no passage contains, without a correction."),
    ] = None

    @classmethod
    def from_answer(cls, answer: SearchAnswer, question: str) -> AnswerShape:
        hits = tuple(map(HitShape.from_hit, answer.hits))
        found = cls(question, hits, answer.total, len(hits), answer.mode, answer.notes, answer.explanation)
        return found if answer.details is None else replace(found, **_list_details(answer.details))

    def to_answer(self) -> SearchAnswer:
        hits = tuple(hit.to_hit() for hit in self.results)
        return SearchAnswer(hits, self.total_matches, self.mode, self.notes, self.explanation, self._to_details())

    def _to_details(self) -> SearchDetails | None:
        if self.relevant is None:
            return None
        return SearchDetails(
            self.relevant, load_facets(self.facets) or {}, self.misspelt or {}, self.unknown_words or ()
        )


def _list_details(details: SearchDetails) -> dict[str, Any]:
    return {
        "relevant": details.relevant,
        "facets": dump_facets(details.facets),
        "exhaustive": False,
        "misspelt": dict(details.misspelt),
        "unknown_words": details.unknown_words,
    }


@dataclass(frozen=True)
class SuggestionsShape:
    """Titles, headings, collections and tags that begin with what was typed."""

    suggestions: tuple[Suggestion, ...]


ModeName: TypeAlias = Literal["hybrid", "text", "vector", "rerank"]

FacetField: TypeAlias = Literal["doc_type", "collection", "tag", "language"]

MAX_QUESTION_CHARS = 100_000


class SearchBody(Body):
    query: str = Field(max_length=MAX_QUESTION_CHARS, description="The search query.")
    top: int = Field(10, ge=1, le=100, description="Maximum number of passages.")
    offset: int = Field(0, ge=0, le=1000, description="Number of passages to skip.")
    tags: list[str] = Field(
        [], description="Tags that a document must all have; `collection:NAME` selects a collection."
    )
    collection: Reference | None = Field(None, description="A collection by name, number or UUID.")
    collections: list[Reference] = Field([], description="Any of these collections.")
    document_id: Reference | None = Field(None, description="Only this document, by number or UUID.")
    document_ids: list[Reference] = Field([], description="Only these documents.")
    doc_type: str | None = Field(None, description="Only this document type, for example pdf, md or note.")
    doc_types: list[str] = Field([], description="Only these document types.")
    date_from: str | None = Field(None, description="Added on this day or later (UTC).")
    date_to: str | None = Field(None, description="Added on this day or earlier (UTC).")
    trusted_only: bool = Field(False, description="Only collections that are marked as trusted.")
    mode: ModeName | None = Field(None, description="Defaults to hybrid (keywords and vectors).")
    fts_only: bool = Field(False, description="Keyword search only; the same as mode text.")
    vec_only: bool = Field(False, description="Vector search only; the same as mode vector.")
    threshold: float = Field(0.0, ge=0, le=1, description="Minimum relevance of a passage.")
    budget_ms: int | None = Field(None, ge=1, le=600_000, description="Time limit for reranking in milliseconds.")
    explain: bool = Field(False, description="Return the contribution of each search step.")
    fallback: bool = Field(True, description="Fall back to keyword search if the embedding service fails.")
    highlight: bool = Field(False, description="Return which words of each passage match.")
    facets: list[FacetField] = Field([], max_length=8, description="Count the passages by these properties.")
    typing: bool = Field(
        False,
        description="The question is being typed: its last word is a prefix, and nothing is reranked. Browser sessions "
        "have a rate limit of their own for it (`TYPING_RATE_LIMIT`).",
    )

    def to_query(self) -> Query:
        return Query(
            text=self.query,
            limit=self.top,
            offset=self.offset,
            filter=self._filter(),
            mode=self._mode(),
            threshold=self.threshold,
            budget_ms=self.budget_ms,
            explain=self.explain,
            fallback=self.fallback,
            highlight=self.highlight,
            facets=tuple(map(FacetName, self.facets)),
            typing=self.typing,
        )

    def _filter(self) -> SearchFilter:
        tags, tagged = split_tags(self.tags)
        single = [] if self.document_id is None else [self.document_id]
        doc_type = [] if self.doc_type is None else [self.doc_type]
        return SearchFilter(
            collections=self._collections(tagged),
            tags=tags,
            doc_types=(*doc_type, *self.doc_types),
            documents=tuple(load_ref(ref, "document_id") for ref in (*single, *self.document_ids)),
            date_from=None if self.date_from is None else load_date(self.date_from, "date_from"),
            trusted_only=self.trusted_only,
            date_to=None if self.date_to is None else load_date(self.date_to, "date_to", end=True),
        )

    def _collections(self, tagged: tuple[str, ...]) -> tuple[CollectionRef, ...]:
        named = None if self.collection is None else load_collection_ref(self.collection)
        one = choose_collection(named, tagged)
        if one is None:
            return tuple(load_collection_ref(ref) for ref in self.collections)
        if self.collections:
            raise Invalid("'collection' and 'collections' cannot be combined", hint="Use one of them.")
        return (one,)

    def _mode(self) -> SearchMode:
        wanted = [SearchMode(self.mode)] if self.mode else []
        wanted += [SearchMode.TEXT] * self.fts_only + [SearchMode.VECTOR] * self.vec_only
        if len(set(wanted)) > 1:
            raise Invalid("mode, fts_only and vec_only contradict each other", hint="Use mode alone.")
        return wanted[0] if wanted else SearchMode.HYBRID


def dump_query(query: Query) -> Json:
    wanted = query.filter
    named = [ref for ref in wanted.collections if isinstance(ref, str)] if len(wanted.collections) == 1 else []
    others = () if named else wanted.collections
    collections: list[JsonValue] = [dump_collection_ref(ref) for ref in others]
    documents: list[JsonValue] = [dump_ref(ref) for ref in wanted.documents]
    return {
        "query": query.text,
        "top": query.limit,
        "offset": query.offset,
        "tags": [*wanted.tags, *(COLLECTION_TAG + name for name in named)],
        "collections": collections,
        "document_ids": documents,
        "doc_types": list(wanted.doc_types),
        "date_from": dump_timestamp_or_none(wanted.date_from),
        "date_to": dump_timestamp_or_none(wanted.date_to),
        "mode": query.mode.value,
        "fts_only": query.mode is SearchMode.TEXT,
        "vec_only": query.mode is SearchMode.VECTOR,
        "threshold": query.threshold,
        "budget_ms": query.budget_ms,
        "explain": query.explain,
        **({} if query.fallback else {"fallback": False}),
        **({"highlight": True} if query.highlight else {}),
        **({"facets": [name.value for name in query.facets]} if query.facets else {}),
        **({"typing": True} if query.typing else {}),
        **({"trusted_only": True} if wanted.trusted_only else {}),
    }
