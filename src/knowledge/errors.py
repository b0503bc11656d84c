"""Everything that can go wrong, as one tree. An error is raised once, with its facts; nobody reads its text.

KnowledgeError
├── Invalid                     422  the request itself is wrong
│   ├── MissingParameter · UnknownParameter · EmptyQuery · ConfirmationRequired · NotANote · NoValidFiles
│   ├── InvalidParameter             InvalidName · InvalidFilename · InvalidCorpusId
│   └── Malformed               400  not even readable: broken JSON, a broken form
├── Unauthenticated             401  MissingKey · InvalidKey · ExpiredKey · WrongPassword
├── Forbidden                   403  AccessDenied · AddressForbidden
│   └── InsufficientPermissions · AdminRequired · CorpusNotApproved · QuotaExceeded
├── NotFound                    404  DocumentNotFound · CollectionNotFound · JobNotFound · UploadNotFound ·
│                                    FileNotFound · McpSessionNotFound
│   └── CorpusNotFound (a CollectionNotFound) · AccountNotFound · KeyNotFound
├── Conflict                    409  Duplicate · NameTaken · AccountTaken · NotNow · EmptyKnowledgeBase
├── UnsupportedFormat           415  WrongMime
├── Unreadable                  422  a file from which no text could be won
│   ├── NeedsPassword · Damaged · NoText · OcrFailed (OcrLanguageMissing, which is a MissingDependency too)
│   └── ParserDied · ParserTooSlow · ParserTooBig · JobCrashed (a job that ended its process, also when it ran alone)
├── Unavailable                 503  Starting · ModelUnavailable · IndexFailed · EngineUnreachable
│   ├── StorageFailed           503  DatabaseFailed · DiskFull
│   └── EmbeddingFailed         503  a remote model that does not do its work
│       └── EmbeddingRateLimited  429
├── FetchFailed                 502  an address on the web that could not be read · NothingCrawled
├── MethodNotAllowed 405 · Cancelled 409 · TooLarge 413 · RateLimited 429 · DeadlineExceeded 504
├── MissingDependency           501  SandboxUnavailable
└── Internal                    500  a fault of ours; its text is logged and not shown
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from knowledge.model import JobError, Json, JsonValue


class KnowledgeError(Exception):
    """The root: a code for machines, an HTTP status, a hint that says what to do next, and the facts."""

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
    """A name that no collection can have."""

    code = "invalid_name"


class InvalidFilename(InvalidParameter):
    code = "invalid_filename"


class InvalidCorpusId(InvalidParameter):
    code = "invalid_corpus_id"
    default_hint = "List the corpuses to see their numbers."


class UnknownParameter(Invalid):
    code = "unknown_parameter"


class EmptyQuery(Invalid):
    code = "empty_query"
    default_hint = "Ask for at least one letter or digit."


class ConfirmationRequired(Invalid):
    code = "confirmation_required"


class NotANote(Invalid):
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
    """A key that is unknown, was revoked, or belongs to an account that is disabled or gone."""

    code = "invalid_key"


class ExpiredKey(Unauthenticated):
    code = "expired_key"
    default_hint = "Log in for a new key."


class WrongPassword(Unauthenticated):
    code = "wrong_password"
    default_hint = "Check the username and the password."


class Forbidden(KnowledgeError):
    code, status = "forbidden", 403


class AccessDenied(Forbidden):
    code = "access_denied"
    default_hint = "Put the file below an allowed folder, or list its folder in KNOWLEDGE_FILES."


class AddressForbidden(Forbidden):
    """An address that a crawl must not reach: private, loopback, link-local, metadata and the like."""

    code = "address_forbidden"
    default_hint = "Only public addresses are fetched; list the host or network in KNOWLEDGE_CRAWL_ALLOW to permit it."


class InsufficientPermissions(Forbidden):
    """It may be read by whoever asks, and not changed."""

    code = "insufficient_permissions"
    default_hint = "Ask its owner to grant you 'write'."


class AdminRequired(Forbidden):
    code = "admin_required"
    default_hint = "Ask an admin of this server; ADMIN_USERS names them."


class CorpusNotApproved(Forbidden):
    code = "corpus_not_approved"
    default_hint = "An admin has to approve the corpus first."


class QuotaExceeded(Forbidden):
    code = "quota_exceeded"
    default_hint = "Remove documents, or ask the operator for more room."


class NotFound(KnowledgeError):
    code, status = "not_found", 404


class DocumentNotFound(NotFound):
    code = "document_not_found"
    default_hint = "List the documents to see which there are."


class CollectionNotFound(NotFound):
    code = "collection_not_found"
    default_hint = "List the collections to see which there are."


class CorpusNotFound(CollectionNotFound):
    code = "corpus_not_found"
    default_hint = "List the corpuses to see which there are."


class JobNotFound(NotFound):
    code = "job_not_found"
    default_hint = "List the jobs to see which there are."


class UploadNotFound(NotFound):
    code = "upload_not_found"
    default_hint = "Start the upload again."


class McpSessionNotFound(NotFound):
    code = "session_not_found"
    default_hint = "Send `initialize` again to open another session."


class FileNotFound(NotFound):
    code = "file_not_found"
    default_hint = "Check the path; it is read on the machine that runs the server."


class AccountNotFound(NotFound):
    code = "account_not_found"


class KeyNotFound(NotFound):
    code = "key_not_found"
    default_hint = "List the keys to see which there are."


class MethodNotAllowed(KnowledgeError):
    code, status = "method_not_allowed", 405


class Conflict(KnowledgeError):
    code, status = "conflict", 409


class Duplicate(Conflict):
    """The same bytes stand in this collection already; `details` says where."""

    code = "duplicate"
    default_hint = "The document is already there; nothing needs to be done."


class NameTaken(Conflict):
    code = "name_taken"
    default_hint = "Choose another name."


class AccountTaken(Conflict):
    code = "account_taken"
    default_hint = "Choose another username."


class NotNow(Conflict):
    """The thing is in a state that does not allow this."""

    code = "not_now"


class EmptyKnowledgeBase(Conflict):
    code = "empty_knowledge_base"
    default_hint = "Add a document first."


class TooLarge(KnowledgeError):
    code, status = "too_large", 413
    default_hint = "Split the file, or raise KNOWLEDGE_MAX_FILE_MB."


class UnsupportedFormat(KnowledgeError):
    code, status = "unsupported_format", 415


class WrongMime(UnsupportedFormat):
    """The content is not what the name or the type says that it is."""

    code = "wrong_mime"


class Unreadable(KnowledgeError):
    code, status = "unreadable", 422
    default_hint = "Open the file in its own program, save it again, and add that."


class NeedsPassword(Unreadable):
    code = "needs_password"
    default_hint = "Save a copy without the password and add that."


class Damaged(Unreadable):
    code = "damaged"


class NoText(Unreadable):
    code = "no_text"
    default_hint = "There is no text in it that could be found again."


class OcrFailed(Unreadable):
    code = "ocr_failed"


class ParserDied(Unreadable):
    code = "parser_died"


class ParserTooSlow(Unreadable):
    code = "parser_too_slow"


class ParserTooBig(Unreadable):
    code = "parser_too_big"
    default_hint = "Split the document and add its parts."


class JobCrashed(Unreadable):
    code = "job_crashed"
    default_hint = "The original is kept for a day: retry the job with 'knowledge jobs retry ID', or add another file."


class RateLimited(KnowledgeError):
    code, status = "rate_limited", 429


class Cancelled(KnowledgeError):
    code, status = "cancelled", 409


class Unavailable(KnowledgeError):
    code, status = "unavailable", 503
    default_hint = "Try again in a moment."


class Starting(Unavailable):
    code = "starting"


class ModelUnavailable(Unavailable):
    code = "model_unavailable"
    default_hint = "Search by words goes on; see the status for what is wrong with the model."


class IndexFailed(Unavailable):
    """The index cannot be searched; it can always be made again from the store."""

    code = "index_failed"
    default_hint = "Try again in a moment; 'knowledge reindex' makes the index anew."


class EngineUnreachable(Unavailable):
    code = "engine_unreachable"
    default_hint = "Start the engine, or correct KB_ENGINE_URL."


class EmbeddingFailed(Unavailable):
    """A remote model that does not do its work; `details` has its status as `provider_status`, where there was one."""

    code = "embedding_failed"


class EmbeddingRateLimited(EmbeddingFailed):
    code, status = "embedding_rate_limited", 429
    default_hint = "The embedding service asks for patience; try again later, or raise its limit."


class StorageFailed(Unavailable):
    code = "storage_failed"
    default_hint = "Check free space and permissions of the data folder."


class DatabaseFailed(StorageFailed):
    code = "database_failed"


class DiskFull(StorageFailed):
    code = "disk_full"
    default_hint = "Free some space on the disk of the data folder, and try again; what was acknowledged is kept."


class FetchFailed(KnowledgeError):
    """`details` has the address, and `http_status` where the site answered at all."""

    code, status = "fetch_failed", 502
    default_hint = "Check the address in a browser, and try again later."


class NothingCrawled(FetchFailed):
    """A crawl that took in no page; `details` has the reason for each address."""

    code = "nothing_crawled"
    default_hint = "Read the reason for each page; correct the address, or crawl another one."


class DeadlineExceeded(KnowledgeError):
    code, status = "deadline_exceeded", 504


class MissingDependency(KnowledgeError):
    code, status = "missing_dependency", 501


class SandboxUnavailable(MissingDependency):
    code = "sandbox_unavailable"
    default_hint = "See 'knowledge doctor' for what is missing, or read without it: unset KNOWLEDGE_SANDBOX."


class OcrLanguageMissing(OcrFailed, MissingDependency):
    code = "ocr_language_missing"


class Internal(KnowledgeError):
    code, status = "internal", 500
    default_hint = "The server's log has the details."


def walk_error_classes(root: type[KnowledgeError] = KnowledgeError) -> Iterator[type[KnowledgeError]]:
    """The root and everything below it, in the order in which it was written."""
    yield root
    for child in root.__subclasses__():
        if child.__bases__[0] is root:  # a child of two stands below the first
            yield from walk_error_classes(child)


ERRORS_BY_CODE: dict[str, type[KnowledgeError]] = {error.code: error for error in walk_error_classes()}


def load_job_error(error: JobError, about: str = "") -> KnowledgeError:
    """The error that ended a job, as the class that was raised there; `about` is put before the message."""
    found = ERRORS_BY_CODE.get(error.code, Internal)(
        f"{about}: {error.message}" if about else error.message, hint=error.hint
    )
    found.details = {**error.details}
    return found
