"""Collections, and a page of them."""

from __future__ import annotations

from uuid import UUID

from knowledge.model import Collection, Curation, Page
from knowledge.wire.shapes import CollectionShape, CollectionsShape, CurationShape
from knowledge.wire.values import dump_moment, load_moment


def dump_collection(collection: Collection) -> CollectionShape:
    return {
        "id": collection.id,
        "uid": str(collection.uid),
        "name": collection.name,
        "title": collection.title,
        "owner": collection.owner,
        "description": collection.description,
        "source_type": collection.source_type,
        "url": collection.url,
        "metadata": collection.metadata,
        "document_count": collection.document_count,
        "chunk_count": collection.chunk_count,
        "created_at": dump_moment(collection.created_at),
        "updated_at": dump_moment(collection.updated_at),
        "curation": None if collection.curation is None else _dump_curation(collection.curation),
    }


def load_collection(data: CollectionShape) -> Collection:
    return Collection(
        id=data["id"],
        uid=UUID(data["uid"]),
        name=data["name"],
        title=data["title"],
        owner=data["owner"],
        description=data["description"],
        source_type=data["source_type"],
        url=data["url"],
        metadata=data["metadata"],
        document_count=data["document_count"],
        chunk_count=data["chunk_count"],
        created_at=load_moment(data["created_at"]),
        updated_at=load_moment(data["updated_at"]),
        curation=None if data["curation"] is None else Curation(**data["curation"]),
    )


def dump_collections(page: Page[Collection]) -> CollectionsShape:
    return {
        "collections": [dump_collection(collection) for collection in page.items],
        "total": page.total,
        "page": page.page,
        "per_page": page.per_page,
    }


def load_collections(data: CollectionsShape) -> Page[Collection]:
    items = tuple(load_collection(collection) for collection in data["collections"])
    return Page(items, data["total"], data["page"], data["per_page"])


def _dump_curation(curation: Curation) -> CurationShape:
    return {
        "category": curation.category,
        "version": curation.version,
        "is_public": curation.is_public,
        "is_approved": curation.is_approved,
        "owner_name": curation.owner_name,
    }
