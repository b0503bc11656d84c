"""Converts the filter of a query to ids, within what the caller may read."""

from __future__ import annotations

from knowledge.engine.search.pipeline import to_day_number
from knowledge.index.api import IndexFilter
from knowledge.model import Scope, SearchFilter
from knowledge.store.collections import CollectionStore
from knowledge.store.documents import DocumentStore

NO_COLLECTION = 0
"""An id that no collection has: ids start at 1, and an empty filter would search all collections."""


def make_index_filter(
    wanted: SearchFilter, documents: DocumentStore, collections: CollectionStore, scope: Scope
) -> IndexFilter:
    """Convert scope and filter to ids; raises NotFound for an unknown collection or document."""
    return IndexFilter(
        owner=scope.owner,
        shared_collections=tuple(sorted(scope.collections)),
        collections=_find_collections(wanted, collections, scope),
        tags=wanted.tags,
        doc_types=wanted.doc_types,
        documents=documents.find_ids(wanted.documents, scope) if wanted.documents else (),
        day_from=to_day_number(wanted.date_from),
        day_to=to_day_number(wanted.date_to),
    )


def _find_collections(wanted: SearchFilter, collections: CollectionStore, scope: Scope) -> tuple[int, ...]:
    """Return the ids of the collections to search; empty searches all."""
    named = collections.find_ids(wanted.collections, scope) if wanted.collections else ()
    if not wanted.trusted_only:
        return named
    trusted = collections.find_trusted_ids(scope)
    return tuple(found for found in trusted if found in named or not named) or (NO_COLLECTION,)
