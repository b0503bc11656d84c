"""Documents, their passages, and a page of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from knowledge.model import Chunk, Document, DocumentStatus, Kind, Method, Page
from knowledge.wire.shapes import ChunkShape, DocumentFacts, DocumentShape, DocumentsShape, DocumentWithChunksShape
from knowledge.wire.values import dump_moment, load_moment, with_collection, without_collection

SECTION_SEPARATOR = " > "


def dump_document(document: Document) -> DocumentShape:
    return {"id": document.id, "uid": str(document.uid), **dump_facts(document)}


def load_document(data: DocumentShape) -> Document:
    return load_facts(data, data["id"], data["uid"])


def dump_facts(document: Document) -> DocumentFacts:
    return {
        "title": document.title,
        "kind": document.kind,
        "doc_type": document.doc_type,
        "collection": document.collection,
        "collection_id": document.collection_id,
        "owner": document.owner,
        "tags": with_collection(document.tags, document.collection),
        "metadata": document.metadata,
        "filename": document.filename,
        "source_path": document.source_path,
        "url": document.url,
        "sha256": document.sha256,
        "size_bytes": document.size_bytes,
        "status": document.status,
        "method": document.method,
        "warnings": list(document.warnings),
        "language": document.language,
        "page_count": document.page_count,
        "chunk_count": document.chunk_count,
        "created_at": dump_moment(document.created_at),
        "updated_at": dump_moment(document.updated_at),
    }


def load_facts(data: DocumentFacts, number: int, uid: str) -> Document:
    return Document(
        id=number,
        uid=UUID(uid),
        title=data["title"],
        kind=Kind(data["kind"]),
        doc_type=data["doc_type"],
        collection=data["collection"],
        collection_id=data["collection_id"],
        owner=data["owner"],
        tags=without_collection(data["tags"], data["collection"]),
        metadata=data["metadata"],
        filename=data["filename"],
        source_path=data["source_path"],
        url=data["url"],
        sha256=data["sha256"],
        size_bytes=data["size_bytes"],
        status=DocumentStatus(data["status"]),
        method=Method(data["method"]),
        warnings=tuple(data["warnings"]),
        language=data["language"],
        page_count=data["page_count"],
        chunk_count=data["chunk_count"],
        created_at=load_moment(data["created_at"]),
        updated_at=load_moment(data["updated_at"]),
    )


def dump_chunk(chunk: Chunk) -> ChunkShape:
    return {
        "id": chunk.id,
        "uid": str(chunk.uid),
        "index": chunk.index,
        "text": chunk.text,
        "page": chunk.page,
        "section_header": section_header(chunk),
        "section": list(chunk.section),
    }


def load_chunk(data: ChunkShape, document_id: int) -> Chunk:
    return Chunk(
        id=data["id"],
        uid=UUID(data["uid"]),
        document_id=document_id,
        index=data["index"],
        text=data["text"],
        page=data["page"],
        section=tuple(data["section"]),
    )


def section_header(chunk: Chunk) -> str | None:
    return SECTION_SEPARATOR.join(chunk.section) or None


def dump_document_with_chunks(document: Document, chunks: Sequence[Chunk]) -> DocumentWithChunksShape:
    return {**dump_document(document), "chunks": [dump_chunk(chunk) for chunk in chunks]}


def load_chunks(data: DocumentWithChunksShape) -> list[Chunk]:
    return [load_chunk(chunk, data["id"]) for chunk in data["chunks"]]


def dump_documents(page: Page[Document]) -> DocumentsShape:
    return {
        "documents": [dump_document(document) for document in page.items],
        "total": page.total,
        "page": page.page,
        "per_page": page.per_page,
    }


def load_documents(data: DocumentsShape) -> Page[Document]:
    items = tuple(load_document(document) for document in data["documents"])
    return Page(items, data["total"], data["page"], data["per_page"])
