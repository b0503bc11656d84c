"""Logging to stderr, as text or as JSON, with one line per request and job. Never logs document text or keys.

A line may have fields: `log.info("completed", extra={"facts": {"job": 7, "ms": 120}})`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from knowledge.config import Settings
from knowledge.surfaces.http.auth import caller_of
from knowledge.surfaces.http.log_throttle import ThrottledHandler
from knowledge.telemetry import metrics

log = logging.getLogger("knowledge.request")

FIRST_ERROR_STATUS = 400
THIRD_PARTY_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.asgi", "httpx", "httpcore", "mcp", "alembic", "asyncio")
"""Logged in the same format, and only from level warning on."""


def configure_logging(settings: Settings) -> None:
    """Send all log records of this process to stderr in one format, with repeated lines throttled."""
    handler = ThrottledHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("knowledge").setLevel(settings.log_level.upper())
    for name in THIRD_PARTY_LOGGERS:
        noisy = logging.getLogger(name)
        noisy.handlers.clear()
        noisy.propagate = True
        noisy.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True


def _read_facts(record: logging.LogRecord) -> Mapping[str, object]:
    facts = getattr(record, "facts", None)
    return facts if isinstance(facts, Mapping) else {}


def _format_time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {name}={value}" for name, value in _read_facts(record).items())
        name = record.name.removeprefix("knowledge.")
        text = replace_unprintable(record.getMessage()) + replace_unprintable(facts)
        line = f"{_format_time(record)} {record.levelname.lower():7} {name}: {text}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _format_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_read_facts(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def replace_unprintable(text: str) -> str:
    """Replace unprintable characters, which prevents log injection through paths."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


class RequestLog:
    """Counts every request and logs one line for it: method, path without query, status, time, kind of caller."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0

        async def record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _count_response(scope, message, time.perf_counter() - started)
            await send(message)

        try:
            await self._app(scope, receive, record_status)
        finally:
            if not status:
                metrics.HTTP_REQUESTS[_name_surface(scope), scope["method"], "0"].inc()
            if log.isEnabledFor(logging.INFO):
                _log_request(scope, status, (time.perf_counter() - started) * 1000)


def _name_surface(scope: Scope) -> str:
    """Return the surface that the guard has found; a preflight request has none."""
    return str(scope.get("surface", metrics.OTHER)).lower()


def _count_response(scope: Scope, message: Message, seconds: float) -> None:
    surface, status = _name_surface(scope), message["status"]
    metrics.HTTP_REQUESTS[surface, scope["method"], str(status)].inc()
    metrics.HTTP_SECONDS[surface].observe(seconds)
    if status >= FIRST_ERROR_STATUS:
        code = Headers(raw=message["headers"]).get("x-mcp-error-code", metrics.OTHER)
        metrics.HTTP_ERRORS[surface, code].inc()


def _log_request(scope: Scope, status: int, milliseconds: float) -> None:
    facts = {
        "method": scope["method"],
        "path": quote(scope["path"][:200]),
        "status": status,
        "ms": round(milliseconds, 1),
        "caller": caller_of(scope).kind.value,
    }
    log.info("answered" if status else "client disconnected before the response", extra={"facts": facts})
