"""Notifications between the servers of one PostgreSQL database (LISTEN and NOTIFY).

They only save waiting: a notification is lost with its connection, so every server also polls. They are sent after the
commit, on a connection of their own: a NOTIFY inside a transaction would make all commits wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, make_url, select

from knowledge.errors import DatabaseFailed
from knowledge.store.database import Database

if TYPE_CHECKING:
    import psycopg

CHANNEL = "knowledge"
MAX_PAYLOAD_CHARS = 7000
"""PostgreSQL refuses payloads of 8000 bytes."""
KEEPALIVES: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}


class NotificationListener:
    """One connection that receives what other servers send."""

    def __init__(self, url: str) -> None:
        self._uri = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.Connection | None = None

    def receive(self, timeout: float) -> Iterator[str]:
        """Yield the payloads that arrive until the timeout, which ends early after the first; connects if needed."""
        import psycopg

        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._uri, autocommit=True, **KEEPALIVES)
                self._connection.execute(f"LISTEN {CHANNEL}")
            for notification in self._connection.notifies(timeout=timeout, stop_after=1):
                yield notification.payload
        except psycopg.Error as error:
            self.close()
            raise DatabaseFailed(f"The connection that listens to other servers failed: {error}") from error

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def send_notifications(database: Database, sender: str, words: Sequence[str]) -> None:
    """Send words to the other servers, in as few notifications as possible."""
    payload = sender
    payloads = []
    for word in words:
        if len(payload) + len(word) >= MAX_PAYLOAD_CHARS:
            payloads.append(payload)
            payload = sender
        payload += f" {word}"
    with database.read() as connection:
        for each in (*payloads, payload):
            connection.execute(select(func.pg_notify(CHANNEL, each)))
