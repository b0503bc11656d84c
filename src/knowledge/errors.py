"""The error tree: each class has a code, an HTTP status and a default hint. Code compares classes, never texts.

KnowledgeError
├── Invalid                     422  the request has a wrong, missing or unknown value
│   ├── MissingParameter · UnknownParameter · EmptyQuery · ConfirmationRequired · NotANote · NoValidFiles
│   ├── InvalidParameter             InvalidName · InvalidFilename · InvalidCorpusId
│   └── Malformed               400  the body cannot be parsed: broken JSON, a broken form
├── Unauthenticated             401  MissingKey · InvalidKey · ExpiredKey · WrongPassword · SessionEnded
├── Forbidden                   403  AccessDenied · AddressForbidden
│   └── InsufficientPermissions · InsufficientScope · AdminRequired · CorpusNotApproved · QuotaExceeded
├── NotFound                    404  DocumentNotFound · CollectionNotFound · JobNotFound · UploadNotFound ·
│                                    FileNotFound · McpSessionNotFound · PageNotFound · NoPages
│   └── CorpusNotFound (a CollectionNotFound) · AccountNotFound · KeyNotFound · SessionNotFound
├── Conflict                    409  Duplicate · NameTaken · AccountTaken · NotNow · EmptyKnowledgeBase ·
│                                    DocumentChanged (412)
├── UnsupportedFormat           415  WrongMime
├── Unreadable                  422  no text could be extracted from a file
│   ├── NeedsPassword · Damaged · NoText · OcrFailed (OcrLanguageMissing, which is a MissingDependency too)
│   └── ParserDied · ParserTooSlow · ParserTooBig · JobCrashed
├── Unavailable                 503  Starting · Busy · Overloaded · ModelUnavailable · IndexFailed · EngineUnreachable
│   ├── StorageFailed           503  DatabaseFailed · DataMoved · DiskFull · OriginalsUnavailable (OriginalsRefused)
│   └── EmbeddingFailed         503  the embedding service failed
│       └── EmbeddingRateLimited  429
├── FetchFailed                 502  a web page could not be fetched · NothingCrawled
├── MethodNotAllowed 405 · Cancelled 409 · TooLarge 413 · RateLimited 429 · DeadlineExceeded 504
├── MissingDependency           501  SandboxUnavailable
└── Internal                    500  a bug in the server; the details are logged and not shown to the caller
"""

from __future__ import annotations

from typing import ClassVar

from knowledge.model import Json, JsonValue


class KnowledgeError(Exception):
    """Base class: a machine-readable code, an HTTP status, a hint that says what to do next, and details as JSON."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    default_hint: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str | None = None, **details: JsonValue) -> None:
        super().__init__(message)
        self.hint = self.default_hint if hint is None else hint
        self.details: Json = details


class Invalid(KnowledgeError):
    code, status = "invalid", 422
    default_hint = "Correct the request and send it again."


class MissingParameter(Invalid):
    code = "missing_parameter"


class InvalidParameter(Invalid):
    code = "invalid_parameter"


class InvalidName(InvalidParameter):
    code = "invalid_name"


class InvalidFilename(InvalidParameter):
    code = "invalid_filename"


class InvalidCorpusId(InvalidParameter):
    code = "invalid_corpus_id"
    default_hint = "List the corpuses to see their ids."


class UnknownParameter(Invalid):
    code = "unknown_parameter"


class EmptyQuery(Invalid):
    code = "empty_query"
    default_hint = "Send a query with at least one letter or digit."


class ConfirmationRequired(Invalid):
    """A destructive call was made without its confirmation."""

    code = "confirmation_required"


class NotANote(Invalid):
    """The document was added as a file and cannot be updated as text."""

    code = "not_a_note"
    default_hint = "Only notes can be updated; add the file again with the same source_path to replace it."


class NoValidFiles(Invalid):
    code = "no_valid_files"
    default_hint = "Send one file as 'file' in multipart/form-data."


class Malformed(Invalid):
    code, status = "malformed", 400


class Unauthenticated(KnowledgeError):
    code, status = "unauthenticated", 401
    default_hint = "Send the key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'."


class MissingKey(Unauthenticated):
    code = "missing_key"


class InvalidKey(Unauthenticated):
    """The key is unknown or revoked, or its account is disabled or deleted."""

    code = "invalid_key"


class ExpiredKey(Unauthenticated):
    code = "expired_key"
    default_hint = "Log in again to get a new key."


class WrongPassword(Unauthenticated):
    code = "wrong_password"
    default_hint = "Check the username and the password."


class SessionEnded(Unauthenticated):
    """The browser session has expired or was revoked, or never existed."""

    code = "session_ended"
    default_hint = "Log in again."


class Forbidden(KnowledgeError):
    """The caller is known and may not do this."""

    code, status = "forbidden", 403


class AccessDenied(Forbidden):
    """The file is outside of the folders that tools may read."""

    code = "access_denied"
    default_hint = "Put the file below an allowed folder, or list its folder in KNOWLEDGE_FILES."


class AddressForbidden(Forbidden):
    """SSRF protection: the URL resolves to a private, loopback, link-local or metadata address."""

    code = "address_forbidden"
    default_hint = "Only public addresses are fetched; list the host or network in KNOWLEDGE_CRAWL_ALLOW to permit it."


class InsufficientPermissions(Forbidden):
    """The caller may read this and not change it."""

    code = "insufficient_permissions"
    default_hint = "Ask the owner for the permission 'write'."


class InsufficientScope(Forbidden):
    code = "insufficient_scope"
    default_hint = "Authorize the client again and allow this scope."


class AdminRequired(Forbidden):
    code = "admin_required"
    default_hint = "Ask an admin of this server; the setting ADMIN_USERS lists them."


class CorpusNotApproved(Forbidden):
    code = "corpus_not_approved"
    default_hint = "Ask an admin to approve the corpus first."


class QuotaExceeded(Forbidden):
    code = "quota_exceeded"
    default_hint = "Remove documents, or ask the operator for a higher quota."


class NotFound(KnowledgeError):
    code, status = "not_found", 404


class DocumentNotFound(NotFound):
    code = "document_not_found"
    default_hint = "List the documents to see which exist."


class CollectionNotFound(NotFound):
    code = "collection_not_found"
    default_hint = "List the collections to see which exist."


class CorpusNotFound(CollectionNotFound):
    code = "corpus_not_found"
    default_hint = "List the corpuses to see which exist."


class JobNotFound(NotFound):
    code = "job_not_found"
    default_hint = "List the jobs to see which exist."


class UploadNotFound(NotFound):
    """The upload is unknown, finished or expired."""

    code = "upload_not_found"
    default_hint = "Start the upload again."


class McpSessionNotFound(NotFound):
    code = "session_not_found"
    default_hint = "Send `initialize` again to open another session."


class FileNotFound(NotFound):
    code = "file_not_found"
    default_hint = "Check the path; it is read on the machine that runs the server."


class PageNotFound(NotFound):
    code = "page_not_found"
    default_hint = "Ask for /documents/{id}/pages to see which pages the document has."


class NoPages(NotFound):
    """The document is of a format that cannot be drawn, such as Markdown."""

    code = "no_pages"
    default_hint = "Read the text of its passages, or download the original."


class AccountNotFound(NotFound):
    code = "account_not_found"


class KeyNotFound(NotFound):
    code = "key_not_found"
    default_hint = "List the keys to see which exist."


class SessionNotFound(NotFound):
    code = "session_not_found"
    default_hint = "List the sessions to see their ids."


class MethodNotAllowed(KnowledgeError):
    code, status = "method_not_allowed", 405


class Conflict(KnowledgeError):
    """The request conflicts with existing data."""

    code, status = "conflict", 409


class Duplicate(Conflict):
    """The collection already has a document with the same bytes; `details` names it."""

    code = "duplicate"
    default_hint = "No action is needed: the document already exists."


class NameTaken(Conflict):
    code = "name_taken"
    default_hint = "Choose another name."


class DocumentChanged(Conflict):
    """The document is not the one that the caller has read (If-Match); nothing was written."""

    code, status = "document_changed", 412
    default_hint = "Read the document again, and repeat the change with its new ETag."


class AccountTaken(Conflict):
    code = "account_taken"
    default_hint = "Choose another username."


class NotNow(Conflict):
    """The current state does not allow this, for example cancelling a job that has ended."""

    code = "not_now"
    default_hint = "Check the current status before you try again."


class EmptyKnowledgeBase(Conflict):
    code = "empty_knowledge_base"
    default_hint = "Add a document first."


class TooLarge(KnowledgeError):
    code, status = "too_large", 413
    default_hint = "Split the file, or raise KNOWLEDGE_MAX_FILE_MB."


class UnsupportedFormat(KnowledgeError):
    code, status = "unsupported_format", 415


class WrongMime(UnsupportedFormat):
    """The content does not match the file name or the declared media type."""

    code = "wrong_mime"


class Unreadable(KnowledgeError):
    code, status = "unreadable", 422
    default_hint = "Open the file in the program that made it, save a new copy, and add that copy."


class NeedsPassword(Unreadable):
    code = "needs_password"
    default_hint = "Save a copy without the password and add that copy."


class Damaged(Unreadable):
    code = "damaged"


class NoText(Unreadable):
    code = "no_text"
    default_hint = "Add a file with text; scanned pages need OCR with the right language in KNOWLEDGE_OCR_LANGUAGES."


class OcrFailed(Unreadable):
    code = "ocr_failed"


class ParserDied(Unreadable):
    code = "parser_died"


class ParserTooSlow(Unreadable):
    """Reading the file took longer than KNOWLEDGE_PARSE_SECONDS allows."""

    code = "parser_too_slow"
    default_hint = "Split the document and add its parts, or raise KNOWLEDGE_PARSE_SECONDS."


class ParserTooBig(Unreadable):
    """Reading the file took more memory than KNOWLEDGE_PARSE_MEMORY_MB allows."""

    code = "parser_too_big"
    default_hint = "Split the document and add its parts, or raise KNOWLEDGE_PARSE_MEMORY_MB."


class JobCrashed(Unreadable):
    """The job crashed the server process, also when it ran alone."""

    code = "job_crashed"
    default_hint = "The original is kept for a day: retry the job with 'knowledge jobs retry ID', or add another file."


class RateLimited(KnowledgeError):
    code, status = "rate_limited", 429
    default_hint = "Wait for the seconds in the header Retry-After, then try again."


class Cancelled(KnowledgeError):
    code, status = "cancelled", 409


class Unavailable(KnowledgeError):
    """Part of the server cannot answer at the moment."""

    code, status = "unavailable", 503
    default_hint = "Try again in a moment."


class Busy(Unavailable):
    """Too much work of this kind is waiting; `details` has the seconds to wait as `retry_after`."""

    code = "busy"
    default_hint = "Wait for the seconds in the header Retry-After, then try again."


class Starting(Unavailable):
    code = "starting"


class Overloaded(Unavailable):
    """A call that can be left out was dropped, because more important ones wait."""

    code = "overloaded"
    default_hint = "Try again in a second."


class ModelUnavailable(Unavailable):
    """The embedding model cannot be loaded or used."""

    code = "model_unavailable"
    default_hint = "Full-text search still works; run 'knowledge status' for the reason."


class IndexFailed(Unavailable):
    """The index cannot be searched; it can be rebuilt from the store."""

    code = "index_failed"
    default_hint = "Try again in a moment; if it fails again, run 'knowledge reindex' to rebuild the index."


class EngineUnreachable(Unavailable):
    """The engine at KB_ENGINE_URL does not answer."""

    code = "engine_unreachable"
    default_hint = "Start the engine, or correct KB_ENGINE_URL."


class EmbeddingFailed(Unavailable):
    """The embedding service failed; `details` has its HTTP status as `provider_status` if it answered."""

    code = "embedding_failed"


class EmbeddingRateLimited(EmbeddingFailed):
    code, status = "embedding_rate_limited", 429
    default_hint = "Try again later, or raise the rate limit at the embedding service."


class StorageFailed(Unavailable):
    """The data folder cannot be read or written."""

    code = "storage_failed"
    default_hint = "Check the free space and the permissions of the data folder."


class DatabaseFailed(StorageFailed):
    code = "database_failed"


class DataMoved(StorageFailed):
    code = "data_moved"


class OriginalsUnavailable(StorageFailed):
    code = "originals_unavailable"
    default_hint = "Try again later; 'knowledge status' says when the originals can be reached again."


class OriginalsRefused(OriginalsUnavailable):
    code = "originals_refused"


class DiskFull(StorageFailed):
    code = "disk_full"
    default_hint = "Free space on the disk of the data folder and try again; acknowledged documents are kept."


class FetchFailed(KnowledgeError):
    """A web page could not be fetched; `details` has its URL, and `http_status` if the site answered."""

    code, status = "fetch_failed", 502
    default_hint = "Open the URL in a browser to check it, and try again later."


class NothingCrawled(FetchFailed):
    """A crawl added no page; `details` has the reason for each URL."""

    code = "nothing_crawled"
    default_hint = "Read the reason for each page; correct the URL, or crawl another one."


class DeadlineExceeded(KnowledgeError):
    code, status = "deadline_exceeded", 504
    default_hint = "Try again later."


class MissingDependency(KnowledgeError):
    """An optional program or package is not installed."""

    code, status = "missing_dependency", 501


class SandboxUnavailable(MissingDependency):
    """KNOWLEDGE_SANDBOX=require, and the kernel has no Landlock or seccomp."""

    code = "sandbox_unavailable"
    default_hint = "Run 'knowledge doctor' to see what is missing; unset KNOWLEDGE_SANDBOX to read without a sandbox."


class OcrLanguageMissing(OcrFailed, MissingDependency):
    code = "ocr_language_missing"


class Internal(KnowledgeError):
    """A bug in the server; the details are logged and not shown to the caller."""

    code, status = "internal", 500
    default_hint = "Look in the server's log for the details."
