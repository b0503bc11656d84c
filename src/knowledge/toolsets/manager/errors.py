"""Contract 001's words: one table from what went wrong to its code, its meaning and the sentence it prints."""

from __future__ import annotations

from dataclasses import dataclass

from knowledge import errors
from knowledge.errors import KnowledgeError
from knowledge.model import Json
from knowledge.toolsets.base import Refused, Toolset, nearest


@dataclass(frozen=True, slots=True)
class Word:
    code: str
    meaning: str
    """As the contract lists it."""
    sentence: str | None = None
    """What the contract prints as the message; otherwise the error speaks for itself."""


NO_KEY = "Invalid or missing API key"

WORDS: dict[type[KnowledgeError], Word] = {
    errors.Unauthenticated: Word("auth.invalid_api_key", "Invalid API key", NO_KEY),
    errors.MissingKey: Word("auth.missing_api_key", "No API key provided", NO_KEY),
    errors.ExpiredKey: Word("auth.expired_api_key", "API key expired", "API key expired"),
    errors.WrongPassword: Word("auth.invalid_credentials", "Invalid username or password"),
    errors.Forbidden: Word("auth.insufficient_permissions", "User lacks permission"),
    errors.CorpusNotApproved: Word("auth.corpus_not_approved", "Corpus not approved"),
    errors.AdminRequired: Word("auth.admin_required", "Admin access required"),
    errors.QuotaExceeded: Word("auth.quota_exceeded", "The account's room is used up"),
    errors.Invalid: Word("validation.invalid_parameter", "A parameter is missing, unknown or wrong"),
    errors.InvalidName: Word("validation.invalid_collection_name", "Invalid collection name"),
    errors.InvalidFilename: Word("validation.invalid_filename", "Invalid filename"),
    errors.EmptyQuery: Word("validation.empty_query", "Query cannot be empty", "Query cannot be empty"),
    errors.InvalidCorpusId: Word("validation.invalid_corpus_id", "Invalid corpus ID"),
    errors.NoValidFiles: Word("validation.no_valid_files", "No valid files provided"),
    errors.Conflict: Word("validation.conflict", "It stands against what is there"),
    errors.TooLarge: Word("file.too_large", "File exceeds size limit"),
    errors.UnsupportedFormat: Word("file.unsupported_type", "Unsupported file type"),
    errors.WrongMime: Word("file.invalid_mime", "Invalid MIME type"),
    errors.Unreadable: Word("file.unreadable", "No text could be won from the file"),
    errors.RateLimited: Word(
        "rate_limit.exceeded", "Rate limit exceeded", "Rate limit exceeded. Please slow down and try again."
    ),
    errors.EmbeddingRateLimited: Word("rate_limit.embedding_api", "OpenAI API rate limit"),
    errors.NotFound: Word("resource.not_found", "There is no such thing"),
    errors.CollectionNotFound: Word("resource.collection_not_found", "Collection not found"),
    errors.CorpusNotFound: Word("resource.corpus_not_found", "Corpus not found"),
    errors.AccountNotFound: Word("resource.user_not_found", "User not found"),
    KnowledgeError: Word("server.internal_error", "Internal server error"),
    errors.Unavailable: Word("server.unavailable", "The server cannot answer at the moment"),
    errors.StorageFailed: Word("server.database_error", "Database error"),
    errors.IndexFailed: Word("server.chromadb_error", "ChromaDB error"),
    errors.EmbeddingFailed: Word("server.openai_api_error", "OpenAI API error"),
}


def word(error: KnowledgeError) -> Word:
    return nearest(type(error), WORDS)


def refuse(error: KnowledgeError) -> Refused:
    """On the JSON-RPC plane: the HTTP status is the code of the error."""
    spoken = word(error)
    hint: Json = {"hint": error.hint} if error.hint else {}
    body: Json = {**error.details, **hint, "message": spoken.sentence or str(error)}
    return Refused(body, code=spoken.code, status=error.status)


tools = Toolset(name="manager", voice=refuse, flat=True)
