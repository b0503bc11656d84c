"""The signing key of MCP session ids, and the ids that their clients ended."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, delete, insert, select

from knowledge.store import schema
from knowledge.store.database import Database
from knowledge.store.row_mapping import make_timestamp

E, S = schema.ended_mcp_sessions.c, schema.settings.c
SIGNING_KEY_NAME = "mcp_session_key"
SIGNING_KEY_BYTES = 32
ENDED_KEEP_MICROSECONDS = 24 * 3600 * 1_000_000
"""How long an ended session id is remembered."""


class McpSessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._signing_key: bytes | None = None

    def get_signing_key(self) -> bytes:
        """Return the key of this data folder, which is made when it is first needed."""
        if self._signing_key is None:
            self._signing_key = bytes.fromhex(self._database.write(_read_or_make_key))
        return self._signing_key

    def end(self, digest: bytes) -> None:
        """Remember that a session was ended, and forget those that ended more than a day ago."""
        now = make_timestamp()

        def work(connection: Connection) -> None:
            connection.execute(delete(schema.ended_mcp_sessions).where(E.ended_at < now - ENDED_KEEP_MICROSECONDS))
            if connection.execute(select(E.digest).where(E.digest == digest)).first() is None:
                connection.execute(insert(schema.ended_mcp_sessions).values(digest=digest, ended_at=now))

        self._database.write(work)

    def is_ended(self, digest: bytes) -> bool:
        with self._database.read() as connection:
            return connection.execute(select(E.digest).where(E.digest == digest)).first() is not None


def _read_or_make_key(connection: Connection) -> str:
    known = connection.execute(select(S.value).where(S.name == SIGNING_KEY_NAME)).scalar()
    if known is not None:
        return str(known)
    made = secrets.token_hex(SIGNING_KEY_BYTES)
    connection.execute(insert(schema.settings).values(name=SIGNING_KEY_NAME, value=made))
    return made
