"""MCP session ids for a server without an engine, such as `sage serve --port`."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path

from knowledge.engine.local_mcp_sessions import NONCE_BYTES, check_session_id, sign_session_id
from knowledge.filesystem import file_modes
from knowledge.store.mcp_sessions import SIGNING_KEY_BYTES

KEY_FILE = "mcp_session.key"
ENDED_KEEP_SECONDS = 24 * 3600.0


class StandaloneMcpSessions:
    """Signs ids with a key file in the data folder, so that they outlive the process; ended ids are kept in memory."""

    def __init__(self, data: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = _read_or_make_key(data / KEY_FILE)
        self._clock = clock
        self._ended_at: dict[str, float] = {}

    async def issue(self, owner: str, protocol_version: str) -> str:
        return sign_session_id(self._key, secrets.token_hex(NONCE_BYTES), protocol_version, owner)

    async def find_version(self, session_id: str, owner: str) -> str | None:
        return None if session_id in self._ended_at else check_session_id(self._key, session_id, owner)

    async def end(self, session_id: str, owner: str) -> None:
        now = self._clock()
        self._ended_at = {ended: at for ended, at in self._ended_at.items() if now - at < ENDED_KEEP_SECONDS}
        if check_session_id(self._key, session_id, owner) is not None:
            self._ended_at[session_id] = now


def _read_or_make_key(path: Path) -> bytes:
    """Return the key in a file; if it can be neither read nor written, a key for this process alone."""
    made = secrets.token_bytes(SIGNING_KEY_BYTES)
    try:
        file_modes.make_folder(path.parent)
        with file_modes.open_new_file(path) as file:
            file.write(made)
    except FileExistsError:
        known = path.read_bytes()
        return known if len(known) == SIGNING_KEY_BYTES else made
    except OSError:
        return made
    return made
