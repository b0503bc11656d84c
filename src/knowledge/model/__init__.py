"""The nouns of the product: frozen values that every room shares. They import nothing of ours."""

from knowledge.model.asking import Answer, DocumentFilter, Filter, Hit, JobFilter, Joined, Mode, Page, Query
from knowledge.model.callers import Caller, CallerKind, Scope
from knowledge.model.documents import Chunk, Collection, Curation, Document, DocumentStatus, Kind, Method
from knowledge.model.incoming import CollectionEdit, Content, DocumentEdit, NewCollection, NewDocument, NewFile, NewNote
from knowledge.model.jobs import Job, JobError, JobKind, JobStatus
from knowledge.model.reports import Finding, ModelStatus, NextModel, Original, Removed, Status
from knowledge.model.values import (
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    SAGE_OWNER,
    CollectionRef,
    Json,
    JsonValue,
    Ref,
    Report,
    new_uid,
    now,
)

__all__ = [
    "DEFAULT_COLLECTION",
    "LOCAL_OWNER",
    "SAGE_OWNER",
    "Answer",
    "Caller",
    "CallerKind",
    "Chunk",
    "Collection",
    "CollectionEdit",
    "CollectionRef",
    "Content",
    "Curation",
    "Document",
    "DocumentEdit",
    "DocumentFilter",
    "DocumentStatus",
    "Filter",
    "Finding",
    "Hit",
    "Job",
    "JobError",
    "JobFilter",
    "JobKind",
    "JobStatus",
    "Joined",
    "Json",
    "JsonValue",
    "Kind",
    "Method",
    "Mode",
    "ModelStatus",
    "NewCollection",
    "NewDocument",
    "NewFile",
    "NewNote",
    "NextModel",
    "Original",
    "Page",
    "Query",
    "Ref",
    "Removed",
    "Report",
    "Scope",
    "Status",
    "new_uid",
    "now",
]
