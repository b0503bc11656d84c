"""Error codes and refusals of contract 000."""

from __future__ import annotations

from uuid import UUID

from knowledge import errors
from knowledge.errors import KnowledgeError
from knowledge.model import Json, JsonValue, Ref
from knowledge.toolsets.base import Refusal, find_nearest

ERROR_CODES: dict[type[KnowledgeError], str] = {
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


def refuse(error: KnowledgeError) -> Refusal:
    """Format an error as contract 000 prints it: `success`, `error`, `message` and the details beside them."""
    code = find_nearest(type(error), ERROR_CODES)
    facts = {key: value for key, value in error.details.items() if key not in ("success", "error", "message")}
    hint: Json = {"hint": error.hint} if error.hint else {}
    return Refusal({"success": False, "error": code, "message": str(error), **facts, **hint}, code=code)


def dump_warnings(warnings: tuple[str, ...]) -> Json:
    return {"warnings": list(warnings)} if warnings else {}


def to_ref(value: JsonValue) -> Ref:
    return value if isinstance(value, int) else UUID(str(value))
