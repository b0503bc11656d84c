"""A question on its way in: the body of POST /search, and the same from a Query."""

from __future__ import annotations

from typing import (
    Literal,
    TypeAlias,
)
from uuid import (
    UUID,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
)

from knowledge.errors import (
    Invalid,
)
from knowledge.model import (
    Answer,
    Chunk,
    CollectionRef,
    Filter,
    Hit,
    Joined,
    Json,
    JsonValue,
    Mode,
    Query,
)
from knowledge.wire.documents import (
    dump_facts,
    load_facts,
    section_header,
)
from knowledge.wire.shapes import (
    AnswerShape,
    HitShape,
)
from knowledge.wire.values import (
    COLLECTION_TAG,
    dump_collection_ref,
    dump_moment_or_none,
    dump_ref,
    load_bound,
    load_collection_ref,
    load_ref,
    one_collection,
    part_tags,
)


def dump_hit(hit: Hit) -> HitShape:
    chunk, document = hit.chunk, hit.document
    return {
        "chunk_id": chunk.id,
        "chunk_uid": str(chunk.uid),
        "document_id": document.id,
        "document_uid": str(document.uid),
        "score": hit.score,
        "matched_by": hit.matched_by,
        "text": hit.text,
        "chunk_index": chunk.index,
        "chunk_indexes": list(hit.indexes),
        "chunk_text": chunk.text if hit.joined else None,
        "chunk_metadata": {
            "page": chunk.page,
            "section_header": section_header(chunk),
            "section": list(chunk.section),
        },
        "explanation": hit.explanation,
        **dump_facts(document),
    }


def load_hit(data: HitShape) -> Hit:
    document = load_facts(data, data["document_id"], data["document_uid"])
    chunk, joined = _load_chunk(data), _load_joined(data)
    return Hit(chunk, document, data["score"], data["matched_by"], data["explanation"], joined)


def _load_joined(data: HitShape) -> Joined | None:
    if data["chunk_text"] is None:
        return None
    first, last = data["chunk_indexes"]
    return Joined(data["text"], first, last)


def _load_chunk(data: HitShape) -> Chunk:
    return Chunk(
        id=data["chunk_id"],
        uid=UUID(data["chunk_uid"]),
        document_id=data["document_id"],
        index=data["chunk_index"],
        text=data["text"] if data["chunk_text"] is None else data["chunk_text"],
        page=data["chunk_metadata"]["page"],
        section=tuple(data["chunk_metadata"]["section"]),
    )


def dump_answer(answer: Answer, question: str) -> AnswerShape:
    return {
        "query": question,
        "results": [dump_hit(hit) for hit in answer.hits],
        "total_matches": answer.total,
        "returned": len(answer.hits),
        "mode": answer.mode,
        "notes": list(answer.notes),
        "explanation": answer.explanation,
    }


def load_answer(data: AnswerShape) -> Answer:
    return Answer(
        hits=tuple(load_hit(hit) for hit in data["results"]),
        total=data["total_matches"],
        mode=Mode(data["mode"]),
        notes=tuple(data["notes"]),
        explanation=data["explanation"],
    )


Reference: TypeAlias = int | str
ModeName: TypeAlias = Literal["hybrid", "text", "vector", "rerank"]

LONGEST_QUESTION = 100_000


class Body(BaseModel):
    """A request body: nothing unknown, nothing bent into another type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class SearchBody(Body):
    query: str = Field(max_length=LONGEST_QUESTION, description="The question, in words.")
    top: int = Field(10, ge=1, le=100, description="How many passages to answer.")
    offset: int = Field(0, ge=0, le=1000, description="How many to leave out first.")
    tags: list[str] = Field([], description="Tags that a document must all have; `collection:NAME` names a collection.")
    collection: Reference | None = Field(None, description="A collection by name, number or UUID.")
    collections: list[Reference] = Field([], description="Several collections, any of them.")
    document_id: Reference | None = Field(None, description="Only this document, by number or UUID.")
    document_ids: list[Reference] = Field([], description="Only these documents.")
    doc_type: str | None = Field(None, description="Only this type, such as pdf, md or note.")
    doc_types: list[str] = Field([], description="Only these types.")
    date_from: str | None = Field(None, description="Added on this day or later (UTC).")
    date_to: str | None = Field(None, description="Added on this day or earlier (UTC).")
    mode: ModeName | None = Field(None, description="Words and meaning together unless given.")
    fts_only: bool = Field(False, description="Words alone.")
    vec_only: bool = Field(False, description="Meaning alone.")
    threshold: float = Field(0.0, ge=0, le=1, description="Leave out passages of less relevance than this.")
    budget_ms: int | None = Field(None, ge=1, le=600_000, description="How long reranking may take.")
    explain: bool = Field(False, description="Say what each step contributed.")
    fallback: bool = Field(True, description="Go by words alone where an embedding service fails.")

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
        )

    def _filter(self) -> Filter:
        tags, tagged = part_tags(self.tags)
        single = [] if self.document_id is None else [self.document_id]
        doc_type = [] if self.doc_type is None else [self.doc_type]
        return Filter(
            collections=self._collections(tagged),
            tags=tags,
            doc_types=(*doc_type, *self.doc_types),
            documents=tuple(load_ref(ref, "document_id") for ref in (*single, *self.document_ids)),
            date_from=None if self.date_from is None else load_bound(self.date_from, "date_from"),
            date_to=None if self.date_to is None else load_bound(self.date_to, "date_to", end=True),
        )

    def _collections(self, tagged: tuple[str, ...]) -> tuple[CollectionRef, ...]:
        named = None if self.collection is None else load_collection_ref(self.collection)
        one = one_collection(named, tagged)
        if one is None:
            return tuple(load_collection_ref(ref) for ref in self.collections)
        if self.collections:
            raise Invalid("The request names one collection and several", hint="Use collection or collections.")
        return (one,)

    def _mode(self) -> Mode:
        wanted = [Mode(self.mode)] if self.mode else []
        wanted += [Mode.TEXT] * self.fts_only + [Mode.VECTOR] * self.vec_only
        if len(set(wanted)) > 1:
            raise Invalid("mode, fts_only and vec_only contradict each other", hint="Use mode alone.")
        return wanted[0] if wanted else Mode.HYBRID


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
        "date_from": dump_moment_or_none(wanted.date_from),
        "date_to": dump_moment_or_none(wanted.date_to),
        "mode": query.mode.value,
        "fts_only": query.mode is Mode.TEXT,
        "vec_only": query.mode is Mode.VECTOR,
        "threshold": query.threshold,
        "budget_ms": query.budget_ms,
        "explain": query.explain,
        **({} if query.fallback else {"fallback": False}),
    }
