"""How the nouns look as JSON on /api/v1. REST and the remote engine share it, so the two cannot differ."""

from knowledge.wire.adding import AddBody, FileFields, dump_file_fields, dump_note
from knowledge.wire.collections import dump_collection, dump_collections, load_collection, load_collections
from knowledge.wire.crawls import CrawlBody, dump_crawl, dump_crawls, dump_new_crawl, load_crawl, load_crawls
from knowledge.wire.documents import (
    dump_chunk,
    dump_document,
    dump_document_with_chunks,
    dump_documents,
    load_chunk,
    load_chunks,
    load_document,
    load_documents,
)
from knowledge.wire.editing import (
    CollectionEditBody,
    DocumentEditBody,
    NewCollectionBody,
    NoteBody,
    TagsBody,
    dump_collection_edit,
    dump_document_edit,
    dump_move,
    dump_new_collection,
)
from knowledge.wire.errors import dump_error, load_error
from knowledge.wire.hits import dump_answer, dump_hit, load_answer, load_hit
from knowledge.wire.jobs import dump_accepted, dump_job, dump_jobs, load_job, load_jobs
from knowledge.wire.listing import (
    ChunkRange,
    DocumentListing,
    JobListing,
    Listing,
    dump_document_filter,
    dump_job_filter,
)
from knowledge.wire.search import Body, SearchBody, dump_query
from knowledge.wire.shapes import CrawlShape
from knowledge.wire.status import (
    dump_findings,
    dump_removed,
    dump_status,
    load_findings,
    load_removed,
    load_status,
)
from knowledge.wire.values import dump_collection_ref, dump_ref, load_collection_ref, load_ref

__all__ = [
    "AddBody",
    "Body",
    "ChunkRange",
    "CollectionEditBody",
    "CrawlBody",
    "CrawlShape",
    "DocumentEditBody",
    "DocumentListing",
    "FileFields",
    "JobListing",
    "Listing",
    "NewCollectionBody",
    "NoteBody",
    "SearchBody",
    "TagsBody",
    "dump_accepted",
    "dump_answer",
    "dump_chunk",
    "dump_collection",
    "dump_collection_edit",
    "dump_collection_ref",
    "dump_collections",
    "dump_crawl",
    "dump_crawls",
    "dump_document",
    "dump_document_edit",
    "dump_document_filter",
    "dump_document_with_chunks",
    "dump_documents",
    "dump_error",
    "dump_file_fields",
    "dump_findings",
    "dump_hit",
    "dump_job",
    "dump_job_filter",
    "dump_jobs",
    "dump_move",
    "dump_new_collection",
    "dump_new_crawl",
    "dump_note",
    "dump_query",
    "dump_ref",
    "dump_removed",
    "dump_status",
    "load_answer",
    "load_chunk",
    "load_chunks",
    "load_collection",
    "load_collection_ref",
    "load_collections",
    "load_crawl",
    "load_crawls",
    "load_document",
    "load_documents",
    "load_error",
    "load_findings",
    "load_hit",
    "load_job",
    "load_jobs",
    "load_ref",
    "load_removed",
    "load_status",
]
