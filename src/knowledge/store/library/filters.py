"""SQL of document lists: conditions, order and facets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select

from knowledge.model import DocumentFilter, DocumentStatus, FacetName, FacetValue, Scope
from knowledge.store import collections, schema, suggestions
from knowledge.store.row_mapping import make_timestamp

D, C, G = schema.documents.c, schema.collections.c, schema.document_tags.c

MAX_FACETS = 50
IS_FINISHED = D.status != DocumentStatus.PROCESSING
"""Counts and duplicates leave out documents whose vectors are not complete."""
SORT_COLUMNS: dict[str, ColumnElement[Any]] = {
    "created_at": D.created_at,
    "updated_at": D.updated_at,
    "title": D.title,
    "filename": func.coalesce(D.filename, D.title),
    "size_bytes": D.size_bytes,
    "doc_type": D.doc_type,
    "chunk_count": D.chunk_count,
}


def visible_to(scope: Scope) -> Any:
    if not scope.collections:
        return D.owner_id == scope.owner
    return or_(D.owner_id == scope.owner, D.collection_id.in_(sorted(scope.collections)))


def writable_in(scope: Scope) -> Any:
    if not scope.writable:
        return D.owner_id == scope.owner
    return or_(D.owner_id == scope.owner, D.collection_id.in_(sorted(scope.writable)))


def list_conditions(connection: Connection, wanted: DocumentFilter, scope: Scope) -> list[Any]:
    """Return the conditions of a filter without those of the scope; raises CollectionNotFound."""
    conditions: list[Any] = []
    if wanted.collection is not None:
        conditions.append(D.collection_id == collections.require_existing(connection, wanted.collection, scope))
    if wanted.doc_type is not None:
        conditions.append(D.doc_type == wanted.doc_type)
    if wanted.source_path is not None:
        conditions.append(D.source_path == wanted.source_path)
    if wanted.finished:
        conditions.append(IS_FINISHED)
    if wanted.tag is not None:
        conditions.append(exists().where(G.document_id == D.id, G.tag == wanted.tag))
    if wanted.text:
        conditions.append(suggestions.contains_name(wanted.text))
    equal = {D.status: wanted.status, D.kind: wanted.kind, D.language: wanted.language}
    conditions += [column == value for column, value in equal.items() if value is not None]
    if wanted.added_from is not None:
        conditions.append(D.created_at >= make_timestamp(wanted.added_from))
    if wanted.added_to is not None:
        conditions.append(D.created_at <= make_timestamp(wanted.added_to))
    return conditions


def count_facet(connection: Connection, name: FacetName, conditions: list[Any]) -> tuple[FacetValue, ...]:
    """Count documents by a property, most frequent value first."""
    number = func.count().label("documents")
    if name is FacetName.COLLECTION:
        grouped = select(C.name.label("value"), C.title, number).join_from(
            schema.documents, schema.collections, D.collection_id == C.id
        )
        rows = connection.execute(
            grouped.where(*conditions).group_by(C.id, C.name, C.title).order_by(number.desc(), C.name).limit(MAX_FACETS)
        ).all()
        return tuple(FacetValue(row.value, row.documents, row.title) for row in rows)
    value: ColumnElement[Any] = {FacetName.DOC_TYPE: D.doc_type, FacetName.LANGUAGE: D.language}.get(name, G.tag)
    counted = select(value.label("value"), number).where(*conditions, value.is_not(None))
    if name is FacetName.TAG:
        counted = counted.join_from(schema.documents, schema.document_tags, G.document_id == D.id)
    rows = connection.execute(counted.group_by(value).order_by(number.desc(), value).limit(MAX_FACETS)).all()
    return tuple(FacetValue(row.value, row.documents) for row in rows)
