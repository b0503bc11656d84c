"""Issues and checks the ids of MCP sessions, so that a restarted server, or a second one, accepts them.

An id is `NONCE.VERSION.MAC`: the MAC is an HMAC-SHA256 over nonce, protocol version and owner with a key kept in the
store. Nothing else of a session is kept, so an id that was issued is enough to open the session again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from knowledge.engine.threads import EngineThreads
from knowledge.store.mcp_sessions import McpSessionStore

NONCE_BYTES = 16
MAC_HEX_CHARS = 32
"""128 bits of the HMAC."""
MAX_ID_CHARS = 128


class LocalMcpSessions:
    def __init__(self, threads: EngineThreads, store: McpSessionStore) -> None:
        self._run_in_thread, self._store = threads.run, store

    async def issue(self, owner: str, protocol_version: str) -> str:
        key = await self._run_in_thread(self._store.get_signing_key)
        return sign_session_id(key, secrets.token_hex(NONCE_BYTES), protocol_version, owner)

    async def find_version(self, session_id: str, owner: str) -> str | None:
        return await self._run_in_thread(lambda: self._find_version(session_id, owner))

    def _find_version(self, session_id: str, owner: str) -> str | None:
        version = check_session_id(self._store.get_signing_key(), session_id, owner)
        return None if version is None or self._store.is_ended(_digest(session_id)) else version

    async def end(self, session_id: str, owner: str) -> None:
        await self._run_in_thread(lambda: self._end(session_id, owner))

    def _end(self, session_id: str, owner: str) -> None:
        if check_session_id(self._store.get_signing_key(), session_id, owner) is not None:
            self._store.end(_digest(session_id))


def sign_session_id(key: bytes, nonce: str, protocol_version: str, owner: str) -> str:
    message = "\n".join((nonce, protocol_version, owner)).encode("utf-8", "surrogatepass")
    mac = hmac.new(key, message, hashlib.sha256).hexdigest()[:MAC_HEX_CHARS]
    return f"{nonce}.{protocol_version}.{mac}"


def check_session_id(key: bytes, session_id: str, owner: str) -> str | None:
    """Return the protocol version of an id that was issued to this owner, or None."""
    parts = session_id.split(".") if len(session_id) <= MAX_ID_CHARS and session_id.isascii() else []
    if len(parts) != 3:
        return None
    nonce, version, _ = parts
    expected = sign_session_id(key, nonce, version, owner)
    return version if hmac.compare_digest(expected.encode(), session_id.encode()) else None


def _digest(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode()).digest()
