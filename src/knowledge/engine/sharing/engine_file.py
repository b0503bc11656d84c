"""engine.json: URL and token of the leader; valid only while the leader holds the lock."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge.errors import NotNow
from knowledge.version import __version__

PRODUCT = "knowledge-server"
WIRE_VERSION = 1
"""Incremented for incompatible changes of the engine's REST API."""
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
    """Write the file atomically, with mode 0600."""
    draft = folder / f"{ENGINE_FILE_NAME}.{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(engine_file), file)
    draft.replace(folder / ENGINE_FILE_NAME)


def read_engine_file(folder: Path) -> EngineFile | None:
    """Return the engine file if it exists and is valid; raises NotNow if the leader has an incompatible version."""
    try:
        found = json.loads((folder / ENGINE_FILE_NAME).read_text("utf-8"))
        engine_file = EngineFile(**{name: found[name] for name in EngineFile.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if engine_file.product != PRODUCT or not engine_file.url.startswith("http://127.0.0.1:"):
        return None
    if engine_file.wire != WIRE_VERSION:
        raise NotNow(
            f"Version {engine_file.version} of {PRODUCT} is using this data folder, and this is version {__version__}",
            hint=f"Stop process {engine_file.pid}, or use the same version for both.",
            pid=engine_file.pid,
        )
    return engine_file


def remove_engine_file(folder: Path, engine_file: EngineFile) -> None:
    """Remove the engine file unless another process has replaced it."""
    if read_engine_file(folder) == engine_file:
        (folder / ENGINE_FILE_NAME).unlink(missing_ok=True)
