"""The JSON format of /api/v1, shared by the REST surface and the remote engine.

Domain types with the same fields in JSON (Job, Collection, Account, ...) are serialized by a pydantic TypeAdapter;
the others have a shape here, converted by `from_*` and `to_*`.
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
    CrawlPagesShape,
    CrawlShape,
    CrawlsShape,
    JobListing,
    JobsShape,
    dump_job_filter,
    dump_new_crawl,
)
from knowledge.wire.requests import Body, Listing
from knowledge.wire.search import AnswerShape, HitShape, SearchBody, SuggestionsShape, dump_query
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
    "CrawlPagesShape",
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
    "SuggestionsShape",
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
