"""engine.json: address and token of the leader; valid only while the leader holds the lock."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge import __version__
from knowledge.errors import NotNow

PRODUCT = "knowledge-server"
WIRE_VERSION = 1
"""Raised when the engine's REST API changes so that an older program could not use it."""
ENGINE_FILE_NAME = "engine.json"


@dataclass(frozen=True, slots=True)
class EngineFile:
    url: str
    token: str
    pid: int
    product: str = PRODUCT
    version: str = __version__
    wire: int = WIRE_VERSION

    @classmethod
    def for_this_process(cls, url: str, token: str) -> EngineFile:
        return cls(url, token, os.getpid())


def new_token() -> str:
    return secrets.token_urlsafe(32)


def write_engine_file(folder: Path, engine_file: EngineFile) -> None:
    """Readable for its owner alone, and never half written."""
    draft = folder / f"{ENGINE_FILE_NAME}.{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(engine_file), file)
    draft.replace(folder / ENGINE_FILE_NAME)


def read_engine_file(folder: Path) -> EngineFile | None:
    """The card, if there is one and it is one of ours; another version's is an error in words."""
    try:
        found = json.loads((folder / ENGINE_FILE_NAME).read_text("utf-8"))
        card = EngineFile(**{name: found[name] for name in EngineFile.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if card.product != PRODUCT or not card.url.startswith("http://127.0.0.1:"):
        return None
    if card.wire != WIRE_VERSION:
        raise NotNow(
            f"Version {card.version} of {PRODUCT} is using this data folder, and this is version {__version__}",
            hint=f"Stop process {card.pid}, or use the same version for both.",
            pid=card.pid,
        )
    return card


def remove_engine_file(folder: Path, engine_file: EngineFile) -> None:
    """Take our own card away; another's stays."""
    if read_engine_file(folder) == engine_file:
        (folder / ENGINE_FILE_NAME).unlink(missing_ok=True)
