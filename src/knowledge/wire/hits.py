"""The answer to a search. A hit is flat: the passage and the document it stands in, side by side."""

from __future__ import annotations

from uuid import UUID

from knowledge.model import Answer, Chunk, Hit, Joined, Mode
from knowledge.wire.documents import dump_facts, load_facts, section_header
from knowledge.wire.shapes import AnswerShape, HitShape


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
