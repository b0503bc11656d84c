"""Verbs for many documents at once, and for documents near another one, in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from knowledge.engine.events.broadcaster import Signal
from knowledge.engine.ingest import accept
from knowledge.engine.runtime import Runtime
from knowledge.engine.search.pipeline import make_index_filter
from knowledge.engine.search.similar import compute_mean_vector, find_similar
from knowledge.errors import ConfirmationRequired, EmptyQuery, MissingParameter
from knowledge.model import DocumentEdit, Hit, Query, Ref, Scope, SearchAnswer, SearchFilter, SearchMode
from knowledge.model.library import MAX_LISTED_FAILURES, BatchFailure, BatchResult, DocumentSelection
from knowledge.store.library.batches import DocumentBatches, SelectedDocuments

HITS_BY_TITLE = 50
"""Passages that are searched for documents with the words of a title."""


class LocalLibrary:
    def __init__(self, parts: Runtime, scope: Scope, search: Callable[[Query], Awaitable[SearchAnswer]]) -> None:
        self._parts, self._scope, self._search = parts, scope, search
        self._batches = DocumentBatches(parts.database)
        self._run_in_thread = parts.threads.run

    async def edit_many(self, selection: DocumentSelection, edit: DocumentEdit) -> BatchResult:
        accept.check_tags(edit.add_tags)
        if edit.collection is None and not edit.add_tags and not edit.remove_tags:
            raise MissingParameter(
                "Nothing to change: 'collection', 'add_tags' or 'remove_tags' is required", parameter="collection"
            )
        return await self._run_in_thread(lambda: self._edit_many(selection, edit))

    def _edit_many(self, selection: DocumentSelection, edit: DocumentEdit) -> BatchResult:
        parts = self._parts
        selected = self._batches.select(selection, self._scope)
        failures = self._batches.edit(selected.ids, edit, self._scope, parts.options.quota)
        parts.broadcaster.notify(Signal.CHANGES)
        parts.indexer.wait_for_change(parts.changes.newest_seq(), parts.options.wait_seconds)
        return make_result(selected, failures)

    async def remove_many(self, selection: DocumentSelection, confirm: int | None) -> BatchResult:
        return await self._run_in_thread(lambda: self._remove_many(selection, confirm))

    def _remove_many(self, selection: DocumentSelection, confirm: int | None) -> BatchResult:
        selected = self._batches.select(selection, self._scope)
        if confirm != len(selected.ids):
            raise make_confirmation_error(selected, confirm)
        gone, originals, failures = self._batches.remove(selected.ids, self._scope)
        self._parts.removal.free_files(gone, originals)
        self._parts.broadcaster.notify(Signal.CHANGES)
        return make_result(selected, failures, gone.chunks)

    async def similar(self, ref: Ref, top: int = 5) -> list[Hit]:
        near = await self._run_in_thread(lambda: self._find_by_vectors(ref, top))
        return await self._find_by_title(ref, top) if near is None else near

    def _find_by_vectors(self, ref: Ref, top: int) -> list[Hit] | None:
        """Return the documents near the vectors of a document; None if it has no vectors."""
        parts = self._parts
        document = parts.documents.find(ref, self._scope)
        serving = parts.indexer.serving
        if serving.model is None:
            return None
        vector = compute_mean_vector(parts.chunks, document, serving.model.id)
        if vector is None:
            return None
        within = make_index_filter(SearchFilter(), parts.documents, parts.collections, self._scope)
        embedder = parts.models.find_embedder(serving.model)
        name = "" if embedder is None else embedder.name
        return find_similar(document, vector, within, top, index=serving.index, passages=parts.documents, model=name)

    async def _find_by_title(self, ref: Ref, top: int) -> list[Hit]:
        document = await self._run_in_thread(lambda: self._parts.documents.find(ref, self._scope))
        try:
            answer = await self._search(Query(text=document.title, mode=SearchMode.TEXT, limit=HITS_BY_TITLE))
        except EmptyQuery:
            return []
        best: dict[int, Hit] = {}
        for hit in answer.hits:
            if hit.document.id != document.id:
                best.setdefault(hit.document.id, hit)
        return list(best.values())[:top]


def make_result(selected: SelectedDocuments, failures: Sequence[BatchFailure], chunks: int = 0) -> BatchResult:
    failed = [*selected.failures, *failures]
    total = len(selected.ids) + len(selected.failures)
    return BatchResult(total, total - len(failed), len(failed), tuple(failed[:MAX_LISTED_FAILURES]), chunks)


def make_confirmation_error(selected: SelectedDocuments, confirm: int | None) -> ConfirmationRequired:
    count = len(selected.ids)
    what = "1 document" if count == 1 else f"{count} documents"
    given = "" if confirm is None else f", not {confirm}"
    return ConfirmationRequired(
        f"This deletes {what}{given}",
        hint=f"Send confirm: {count} to delete them.",
        documents=count,
        chunks=selected.chunks,
    )
