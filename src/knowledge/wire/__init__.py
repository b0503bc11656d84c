"""How the nouns look as JSON on /api/v1. REST and the remote engine share it, so the two cannot differ.

A noun that looks the same outside (Job, Collection, Account, Removed, ...) is dumped and loaded as it is, by the
adapters of pydantic; one that differs has a shape here, made by `from_*` and read by `to_*`.
"""

from knowledge.wire.accounts import AccountsShape, ApiKeysShape, IssuedKeyShape
from knowledge.wire.adapters import adapter, dump, dump_json, json_schema, load, load_json
from knowledge.wire.collections import (
    CollectionEditBody,
    CollectionsShape,
    CorpusesShape,
    CorpusShape,
    NewCollectionBody,
    PermissionsShape,
)
from knowledge.wire.documents import (
    AddBody,
    ChunkRange,
    ChunkShape,
    DocumentEditBody,
    DocumentListing,
    DocumentShape,
    DocumentsShape,
    DocumentWithChunksShape,
    FileFields,
    NoteBody,
    TagsBody,
    dump_document_edit,
    dump_document_filter,
    dump_file_fields,
    dump_move,
    dump_note,
)
from knowledge.wire.errors import ErrorFacts, ErrorShape, dump_error, load_error
from knowledge.wire.jobs import (
    AcceptedShape,
    CrawlBody,
    CrawlShape,
    CrawlsShape,
    JobListing,
    JobsShape,
    dump_job_filter,
    dump_new_crawl,
)
from knowledge.wire.requests import Body, Listing
from knowledge.wire.search import AnswerShape, HitShape, SearchBody, dump_query
from knowledge.wire.status import DoneShape, FindingsShape, HealthShape, ReindexBody, StatusShape
from knowledge.wire.values import dump_collection_ref, dump_ref, load_collection_ref, load_ref

__all__ = [
    "AcceptedShape",
    "AccountsShape",
    "AddBody",
    "AnswerShape",
    "ApiKeysShape",
    "Body",
    "ChunkRange",
    "ChunkShape",
    "CollectionEditBody",
    "CollectionsShape",
    "CorpusShape",
    "CorpusesShape",
    "CrawlBody",
    "CrawlShape",
    "CrawlsShape",
    "DocumentEditBody",
    "DocumentListing",
    "DocumentShape",
    "DocumentWithChunksShape",
    "DocumentsShape",
    "DoneShape",
    "ErrorFacts",
    "ErrorShape",
    "FileFields",
    "FindingsShape",
    "HealthShape",
    "HitShape",
    "IssuedKeyShape",
    "JobListing",
    "JobsShape",
    "Listing",
    "NewCollectionBody",
    "NoteBody",
    "PermissionsShape",
    "ReindexBody",
    "SearchBody",
    "StatusShape",
    "TagsBody",
    "adapter",
    "dump",
    "dump_collection_ref",
    "dump_document_edit",
    "dump_document_filter",
    "dump_error",
    "dump_file_fields",
    "dump_job_filter",
    "dump_json",
    "dump_move",
    "dump_new_crawl",
    "dump_note",
    "dump_query",
    "dump_ref",
    "json_schema",
    "load",
    "load_collection_ref",
    "load_error",
    "load_json",
    "load_ref",
]
