"""Parses the HTTP header Retry-After (RFC 9110 §10.2.3)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")
MAX_SECONDS = 1e9  # keeps a hostile value from overflowing sleeps and dates


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a number of seconds or an HTTP date; None if the value is neither."""
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max((aware - datetime.now(UTC)).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
