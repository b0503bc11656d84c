"""Error codes and messages of contract 001, by error class."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge import errors
from knowledge.errors import KnowledgeError
from knowledge.model import Json
from knowledge.toolsets.base import Refusal, Toolset, find_nearest


@dataclass(frozen=True, slots=True)
class ErrorWording:
    code: str
    meaning: str
    """Description of the code, as contract 001 lists it."""
    message: str | None = None
    """Fixed message that the contract prints; None uses the message of the error."""


INVALID_KEY_MESSAGE = "Invalid or missing API key"

ERROR_TABLE: dict[type[KnowledgeError], ErrorWording] = {
    errors.Unauthenticated: ErrorWording("auth.invalid_api_key", "Invalid API key", INVALID_KEY_MESSAGE),
    errors.MissingKey: ErrorWording("auth.missing_api_key", "No API key provided", INVALID_KEY_MESSAGE),
    errors.ExpiredKey: ErrorWording("auth.expired_api_key", "API key expired", "API key expired"),
    errors.WrongPassword: ErrorWording("auth.invalid_credentials", "Invalid username or password"),
    errors.Forbidden: ErrorWording("auth.insufficient_permissions", "User lacks permission"),
    errors.CorpusNotApproved: ErrorWording("auth.corpus_not_approved", "Corpus not approved"),
    errors.AdminRequired: ErrorWording("auth.admin_required", "Admin access required"),
    errors.QuotaExceeded: ErrorWording("auth.quota_exceeded", "Account quota exceeded"),
    errors.Invalid: ErrorWording("validation.invalid_parameter", "Missing, unknown or invalid parameter"),
    errors.InvalidName: ErrorWording("validation.invalid_collection_name", "Invalid collection name"),
    errors.InvalidFilename: ErrorWording("validation.invalid_filename", "Invalid filename"),
    errors.EmptyQuery: ErrorWording("validation.empty_query", "Query cannot be empty", "Query cannot be empty"),
    errors.InvalidCorpusId: ErrorWording("validation.invalid_corpus_id", "Invalid corpus ID"),
    errors.NoValidFiles: ErrorWording("validation.no_valid_files", "No valid files provided"),
    errors.Conflict: ErrorWording("validation.conflict", "Conflicts with existing data"),
    errors.TooLarge: ErrorWording("file.too_large", "File exceeds size limit"),
    errors.UnsupportedFormat: ErrorWording("file.unsupported_type", "Unsupported file type"),
    errors.WrongMime: ErrorWording("file.invalid_mime", "Invalid MIME type"),
    errors.Unreadable: ErrorWording("file.unreadable", "No text could be extracted from the file"),
    errors.RateLimited: ErrorWording(
        "rate_limit.exceeded", "Rate limit exceeded", "Rate limit exceeded. Please slow down and try again."
    ),
    errors.EmbeddingRateLimited: ErrorWording("rate_limit.embedding_api", "OpenAI API rate limit"),
    errors.NotFound: ErrorWording("resource.not_found", "Resource not found"),
    errors.CollectionNotFound: ErrorWording("resource.collection_not_found", "Collection not found"),
    errors.CorpusNotFound: ErrorWording("resource.corpus_not_found", "Corpus not found"),
    errors.AccountNotFound: ErrorWording("resource.user_not_found", "User not found"),
    KnowledgeError: ErrorWording("server.internal_error", "Internal server error"),
    errors.Unavailable: ErrorWording("server.unavailable", "Service unavailable"),
    errors.StorageFailed: ErrorWording("server.database_error", "Database error"),
    errors.IndexFailed: ErrorWording("server.chromadb_error", "ChromaDB error"),
    errors.EmbeddingFailed: ErrorWording("server.openai_api_error", "OpenAI API error"),
}


def find_wording(error: KnowledgeError) -> ErrorWording:
    return find_nearest(type(error), ERROR_TABLE)


def refuse(error: KnowledgeError) -> Refusal:
    """Format an error as a JSON-RPC error whose code is the HTTP status."""
    wording = find_wording(error)
    hint: Json = {"hint": error.hint} if error.hint else {}
    body: Json = {**error.details, **hint, "message": wording.message or str(error)}
    return Refusal(body, code=wording.code, status=error.status)


tools = Toolset(
    name="manager",
    format_error=refuse,
    flat=True,
    instructions=(
        "Collections and curated corpuses of documents, for reading only. query_knowledge searches all collections, or "
        "the ones that you name; query_corpus searches one corpus by its id. list_collections and list_corpuses show "
        "the names and ids. Every passage ends with its source: cite it."
    ),
)
