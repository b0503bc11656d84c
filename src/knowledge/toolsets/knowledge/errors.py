"""Contract 000's words: for what goes wrong, for times and names, and for the ids that callers write."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from knowledge import errors
from knowledge.errors import KnowledgeError
from knowledge.model import Document, Json, JsonValue, Ref
from knowledge.toolsets.base import Refused, nearest

ERRORS: dict[type[KnowledgeError], str] = {
    KnowledgeError: "internal_error",
    errors.Invalid: "invalid_parameter",
    errors.MissingParameter: "missing_required_parameter",
    errors.ConfirmationRequired: "confirmation_required",
    errors.EmptyKnowledgeBase: "empty_knowledge_base",
    errors.Unauthenticated: "unauthenticated",
    errors.Forbidden: "access_denied",
    errors.NotFound: "not_found",
    errors.DocumentNotFound: "document_not_found",
    errors.JobNotFound: "task_not_found",
    errors.FileNotFound: "file_not_found",
    errors.Conflict: "conflict",
    errors.TooLarge: "file_too_large",
    errors.UnsupportedFormat: "unsupported_format",
    errors.Unreadable: "processing_failed",
    errors.NeedsPassword: "password_protected",
    errors.Damaged: "file_damaged",
    errors.NoText: "no_text_found",
    errors.OcrFailed: "ocr_failed",
    errors.RateLimited: "rate_limited",
    errors.Cancelled: "cancelled",
    errors.Unavailable: "unavailable",
    errors.DeadlineExceeded: "timeout",
    errors.MissingDependency: "missing_dependency",
}


def refuse(error: KnowledgeError) -> Refused:
    """`success: false`, the contract's word, the sentence, and the facts beside them."""
    word = nearest(type(error), ERRORS)
    facts = {key: value for key, value in error.details.items() if key not in ("success", "error", "message")}
    hint: Json = {"hint": error.hint} if error.hint else {}
    return Refused({"success": False, "error": word, "message": str(error), **facts, **hint}, code=word)


def warnings(found: tuple[str, ...]) -> Json:
    return {"warnings": list(found)} if found else {}


def name_of(document: Document) -> str:
    return document.filename or document.title


def stamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_ref(text: str) -> Ref | None:
    """A number or a UUID, as a caller writes it; None when it is neither."""
    if text.isascii() and text.isdigit():
        return int(text) if len(text) < 19 else None
    try:
        return UUID(text)
    except ValueError:
        return None


def known_ref(value: JsonValue) -> Ref:
    return value if isinstance(value, int) else UUID(str(value))
