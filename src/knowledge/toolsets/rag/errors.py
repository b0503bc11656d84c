"""Errors of contract 002, each with a suggestion that names the next call, and text limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from knowledge import errors
from knowledge.errors import InvalidParameter, KnowledgeError, MissingParameter
from knowledge.model import CollectionRef, Json, JsonValue
from knowledge.toolsets.base import ErrorFormatter, Refusal, Toolset, find_nearest
from knowledge.toolsets.values import parse_ref

MAX_TEXT_CHARS, MAX_TITLE_CHARS, MAX_ITEMS = 1000, 200, 20

SUGGESTIONS: dict[type[KnowledgeError], str] = {
    KnowledgeError: "Check the parameters and try again",
    errors.CollectionNotFound: "Use manage_source(action='list') to see available sources",
    errors.DocumentNotFound: "Verify document_id or use manage_document(action='list')",
    errors.JobNotFound: "Verify job_id or use manage_crawl_job(action='list')",
    errors.FileNotFound: "Check the path on the server's machine, then call manage_document(action='create') again",
    errors.AccessDenied: "Put the file below an allowed folder (KNOWLEDGE_FILES), then call "
    "manage_document(action='create') again",
    errors.AddressForbidden: "Call crawl_website with a public address, or have the operator list this one in "
    "KNOWLEDGE_CRAWL_ALLOW",
    errors.TooLarge: "Split the file, then call manage_document(action='create') for each part",
    errors.UnsupportedFormat: "Convert the file, then call manage_document(action='create') again",
    errors.Unreadable: "Save the file again in its application, then call manage_document(action='create') again",
    errors.NeedsPassword: "Save a copy without the password, then call manage_document(action='create') with it",
    errors.NameTaken: "Choose another title, or use manage_source(action='list') to find the existing one",
    errors.EmptyQuery: "Provide a query with at least one word: search_knowledge_base(query='...')",
    errors.ModelUnavailable: "Use search_knowledge_base(search_type='hybrid'), which searches by keywords until the "
    "model is loaded",
    errors.RateLimited: "Wait a moment and call again",
    errors.Unavailable: "Wait a moment and call again",
    errors.Internal: "Try again; see the server log for details",
}


def refuse(error: KnowledgeError) -> Refusal:
    return make_refusal(str(error), suggestion_for(error), error.code)


def make_refusal(message: str, suggestion: str, code: str) -> Refusal:
    return Refusal({"success": False, "error": message, "suggestion": suggestion}, code=code)


def suggestion_for(error: KnowledgeError) -> str:
    """Return the hint of an error in the arguments, or the suggestion for its class."""
    if isinstance(error, errors.Invalid) and error.hint and not isinstance(error, errors.EmptyQuery):
        return error.hint
    suggestion = find_nearest(type(error), SUGGESTIONS)
    if isinstance(error, errors.UnsupportedFormat) and error.hint:
        return f"{suggestion}. {error.hint}"
    return suggestion


def make_error_formatter(tool: str) -> ErrorFormatter:
    """Return an error formatter whose suggestions always name a call, this tool by default."""

    def format_error(error: KnowledgeError) -> Refusal:
        message = str(error)
        if isinstance(error, MissingParameter) and "action" not in error.details:
            message = f"{error.details['parameter']} is required for this operation"
            unknown = error.details.get("unknown_parameters")
            if isinstance(unknown, list):
                message += f". Unknown parameter: {', '.join(str(name) for name in unknown)}"
        suggestion = suggestion_for(error)
        if "(" not in suggestion:
            suggestion = f"{suggestion.rstrip('.')}{'' if suggestion.endswith('?') else ':'} {tool}(...)"
        return make_refusal(message, suggestion, error.code)

    return format_error


tools = Toolset(
    name="rag",
    format_error=refuse,
    instructions=(
        "Documents and crawled web pages, grouped by source. Call search_knowledge_base before you answer from memory; "
        "search_type 'hybrid' suits most questions. A refusal has a suggestion that names the next call."
    ),
    change_instructions=(
        "manage_document adds files by path, crawl_website adds web pages: manage_crawl_job reports the progress of a "
        "crawl."
    ),
)


def raise_missing_parameter(name: str, action: str, suggestion: str) -> NoReturn:
    raise MissingParameter(f"{name} required for {action}", hint=suggestion, parameter=name, action=action)


def unknown_action_error(action: str, valid: tuple[str, ...]) -> InvalidParameter:
    listed = ", ".join(f"'{name}'" for name in valid[:-1])
    return InvalidParameter(
        f"Unknown action: {action}", hint=f"Use {listed}, or '{valid[-1]}'", parameter="action", valid=list(valid)
    )


def clamp(value: int, maximum: int) -> int:
    """Limit a number to 1..maximum; contract 002 clamps instead of refusing."""
    return min(max(value, 1), maximum)


def truncate_text(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 3] + "..."


def truncate_values(value: Mapping[str, JsonValue]) -> Json:
    """Truncate the texts in metadata to MAX_TEXT_CHARS."""
    return {key: truncate_text(item) if isinstance(item, str) else item for key, item in value.items()}


def parse_source_ref(text: str) -> CollectionRef:
    """Parse a source id; anything else is a name."""
    ref = parse_ref(text)
    return text if ref is None else ref
