"""How often and how long to wait for a service that is busy."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Patience:
    attempts: int
    first_delay: float
    longest_delay: float

    def delays(self) -> Iterator[float | None]:
        """One for each attempt: how long to wait after it has failed; None after the last."""
        for attempt in range(self.attempts - 1):
            # Spread out, so that many callers do not come back all at once.
            yield self.bounded(self.first_delay * 2**attempt * random.uniform(0.8, 1.2))
        yield None

    def bounded(self, delay: float) -> float:
        return min(delay, self.longest_delay)


BULK = Patience(attempts=6, first_delay=0.5, longest_delay=60.0)
"""For passages: nobody is waiting for the answer."""
ASKING = Patience(attempts=2, first_delay=0.25, longest_delay=1.0)
"""For questions: somebody is, and search by words can answer."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, out of a header that holds seconds or a date."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
