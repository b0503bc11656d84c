"""Full-text search with tantivy over terms that `text.analyzer` has already stemmed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import tantivy
from numpy.typing import NDArray

from knowledge.errors import StorageFailed
from knowledge.index import bm25 as bm25_scores
from knowledge.index import tantivy_files
from knowledge.index.api import IndexEntry, IndexFilter, QueryTerms
from knowledge.index.bm25 import CollectionStatistics, QueryWord

WRITER_HEAP_BYTES = 32_000_000
# tantivy buffers this many bytes before it writes a segment.
Ids: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.float32]
MUST, SHOULD = tantivy.Occur.Must, tantivy.Occur.Should


@cache
def build_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("terms", tokenizer_name="whitespace", index_option="position")
    builder.add_integer_field("chunk", indexed=True, fast=True)
    # Signed, because delete_documents on an unsigned field deletes nothing and reports no error.
    for name in ("document", "collection", "owner"):
        builder.add_integer_field(name, indexed=True)
    builder.add_integer_field("day", indexed=True, fast=True)
    for name in ("doc_type", "tag"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    return builder.build()


class FulltextWriter:
    """The only writer of the tantivy index; a commit is durable and atomic for later searchers."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._index = tantivy.Index(build_schema(), path=str(folder))
        self._index.config_reader("manual")
        self._writer: tantivy.IndexWriter | None = self._open_writer()

    def _open_writer(self) -> tantivy.IndexWriter:
        try:
            return self._index.writer(WRITER_HEAP_BYTES, 1)
        except ValueError as error:
            # tantivy-py raises ValueError for everything; a busy lock is not damage and must not start a rebuild.
            if "LockBusy" not in str(error):
                raise
            raise StorageFailed(
                "The index is locked by another process",
                hint="Stop the other process, or set KNOWLEDGE_DATA to another folder.",
            ) from error

    @property
    def writer(self) -> tantivy.IndexWriter:
        """The tantivy writer, opened again after a failed one was dropped."""
        if self._writer is None:
            self._writer = self._open_writer()
        return self._writer

    @property
    def opstamp(self) -> int:
        return int(self.writer.commit_opstamp)

    def add(self, entries: Sequence[IndexEntry]) -> None:
        for entry in entries:
            document = tantivy.Document()
            document.add_text("terms", " ".join(entry.terms))
            document.add_integer("chunk", entry.chunk_id)
            document.add_integer("document", entry.document_id)
            document.add_integer("collection", entry.collection_id)
            document.add_integer("owner", entry.owner)
            document.add_integer("day", entry.day)
            document.add_text("doc_type", entry.doc_type)
            for tag in entry.tags:
                document.add_text("tag", tag)
            self.writer.add_document(document)

    def delete_documents(self, documents: Iterable[int]) -> None:
        for document in documents:
            self.writer.delete_documents_by_query(term_query("document", document))

    def commit(self) -> None:
        self.writer.commit()

    def rewrite_chunks(self, entries: Sequence[IndexEntry]) -> None:
        """Delete and add these chunks, so that their old segments become empty."""
        for entry in entries:
            self.writer.delete_documents_by_query(term_query("chunk", entry.chunk_id))
        self.add(entries)

    def collect_garbage(self) -> None:
        """Delete the files of segments that no searcher uses."""
        self.writer.garbage_collect_files()

    def rollback(self) -> None:
        try:
            self.writer.rollback()
        except ValueError:  # the writer's thread has died, for example of a full disk; committed data is safe
            self._writer = None

    def view(self) -> FulltextView:
        self._index.reload()
        searcher, segments = self._index.searcher(), tantivy_files.read_segments(self._folder)
        stored_count = sum(segment.chunk_count for segment in segments)
        if len(segments) != searcher.num_segments:  # a merge has finished meanwhile
            stored_count = -1
        return FulltextView(searcher, int(searcher.num_docs), stored_count)

    def close(self) -> None:
        if self._writer is None:
            return
        try:
            self._writer.wait_merging_threads()
        except ValueError:  # as in rollback
            pass
        finally:
            self._writer = None


@dataclass(frozen=True, slots=True)
class FulltextView:
    searcher: tantivy.Searcher
    chunk_count: int
    stored_count: int
    """Number of chunks with the deleted ones, which count in tantivy's statistics until they are purged; -1 if it is
    unknown."""
    _document_frequencies: dict[str, int] = field(default_factory=dict)

    def find_in_segments(self, ids: Sequence[int], segments: frozenset[int]) -> list[int]:
        """Return those of the chunks that are stored in one of these segments."""
        hits = self.searcher.search(any_of_query("chunk", ids), max(len(ids), 1), count=False).hits
        addresses = [address for _, address in hits if address.segment_ord in segments]
        return [int(chunk) for chunk in self.searcher.fast_field_values("chunk", addresses)] if addresses else []

    @property
    def has_exact_statistics(self) -> bool:
        return self.stored_count == self.chunk_count

    def document_frequency(self, form: str) -> int:
        """Return the number of chunks that contain the term, with deleted ones that are not purged."""
        found = self._document_frequencies.get(form)
        if found is None:
            found = int(self.searcher.doc_freq("terms", form))
            if found:  # terms that do not occur are not cached, because queries can invent any number of them
                self._document_frequencies[form] = found
        return found

    def find_terms_with_prefix(self, prefix: str, conditions: Sequence[tantivy.Query], limit: int) -> list[str]:
        """Return the most frequent terms of the chunks that match the conditions and begin with a prefix."""
        within = tantivy.Query.boolean_query([(MUST, each) for each in conditions]) if conditions else None
        found = self.searcher.terms_with_prefix("terms", prefix, filter_query=within, limit=limit)
        return [term for term, count in found if count]

    def document_frequency_within(self, form: str, conditions: Sequence[tantivy.Query]) -> int:
        """Return the number of chunks that contain the term and match the conditions, without deleted ones."""
        if not self.document_frequency(form):
            return 0
        query = tantivy.Query.boolean_query([(MUST, each) for each in (term_query("terms", form), *conditions)])
        found = self.searcher.search(tantivy.Query.const_score_query(query, 0.0), 1, count=True)
        return int(found.count)

    def search(
        self, words: QueryTerms, conditions: Sequence[tantivy.Query], limit: int, statistics: CollectionStatistics
    ) -> tuple[Ids, Scores]:
        """Return the best chunks that match the conditions, with their scores."""
        asked = [word for word in statistics.get_weighted_query(words).words if word.forms]
        scored = [(SHOULD, self._make_word_query(word, statistics)) for word in asked]
        if not scored:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        asked_for = tantivy.Query.boolean_query(scored)
        if words.phrases or conditions:
            required = (*map(phrase_query, words.phrases), *conditions)
            must = [(MUST, tantivy.Query.const_score_query(each, 0.0)) for each in required]
            asked_for = tantivy.Query.boolean_query([(MUST, asked_for), *must])
        return self._run_query(asked_for, limit)

    def find_holding_phrases(self, words: QueryTerms, ids: Sequence[int]) -> frozenset[int]:
        """Return those of the chunks that contain every phrase."""
        one_of_them = any_of_query("chunk", ids)
        conditions = [(MUST, query) for query in (one_of_them, *map(phrase_query, words.phrases))]
        return frozenset(self._run_query(tantivy.Query.boolean_query(conditions), max(len(ids), 1))[0].tolist())

    def _make_word_query(self, word: QueryWord, statistics: CollectionStatistics) -> tantivy.Query:
        forms = [self._make_form_query(form, statistics) for form in word.forms]
        query = forms[0] if len(forms) == 1 else tantivy.Query.disjunction_max_query(forms)
        return query if word.weight == 1.0 else tantivy.Query.boost_query(query, word.weight)

    def _make_form_query(self, form: str, statistics: CollectionStatistics) -> tantivy.Query:
        """Return a term query, boosted to the idf of these statistics, because tantivy uses that of the whole index."""
        if statistics.whole:
            return term_query("terms", form)
        stored_count = max(self.stored_count, self.chunk_count)
        weight = statistics.idf(form) / bm25_scores.idf(stored_count, self.document_frequency(form))
        return tantivy.Query.boost_query(term_query("terms", form), weight)

    def _run_query(self, query: tantivy.Query, limit: int) -> tuple[Ids, Scores]:
        hits = self.searcher.search(query, limit, count=False).hits
        scores, addresses = zip(*hits, strict=True) if hits else ((), ())
        ids = self.searcher.fast_field_values("chunk", list(addresses))
        return np.asarray(ids, np.int64), np.asarray(scores, np.float32)


# -- queries ------------------------------------------------------------------------------------


def term_query(name: str, value: int | str) -> tantivy.Query:
    return tantivy.Query.term_query(build_schema(), name, value)


def any_of_query(name: str, values: Iterable[int | str]) -> tantivy.Query:
    return tantivy.Query.boolean_query([(SHOULD, term_query(name, value)) for value in values])


def phrase_query(forms: Sequence[Sequence[str]]) -> tantivy.Query:
    """Match any form of a phrase; tantivy's phrase query needs at least two terms."""
    queries = [
        tantivy.Query.phrase_query(build_schema(), "terms", list(form))
        if len(form) > 1
        else term_query("terms", form[0])
        for form in forms
    ]
    return tantivy.Query.boolean_query([(SHOULD, query) for query in queries])


def filter_queries(within: IndexFilter, *, by_owner: bool) -> list[tantivy.Query]:
    """Return the conditions of a filter; `by_owner` is False if all chunks are readable, since that condition is the
    most expensive one."""
    owned = (SHOULD, term_query("owner", within.owner))
    shared = [(SHOULD, term_query("collection", collection)) for collection in within.shared_collections]
    found = [tantivy.Query.boolean_query([owned, *shared])] if by_owner else []
    if within.collections:
        found.append(any_of_query("collection", within.collections))
    if within.documents:
        found.append(any_of_query("document", within.documents))
    if within.doc_types:
        found.append(any_of_query("doc_type", within.doc_types))
    found += [term_query("tag", tag) for tag in within.tags]
    if within.day_from is not None or within.day_to is not None:
        found.append(
            tantivy.Query.range_query(build_schema(), "day", tantivy.FieldType.Integer, within.day_from, within.day_to)
        )
    return found
