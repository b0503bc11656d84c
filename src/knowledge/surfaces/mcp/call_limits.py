"""What the settings allow a call: how large a file, how long a wait, and which folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from knowledge.config import Settings
from knowledge.toolsets.base import Limits
from knowledge.toolsets.paths import Folders

OWN = (
    "knowledge.db", "knowledge.db-wal", "knowledge.db-shm", "engine.json", "files", "index", "models", "uploads",
    "allowances.db", "allowances.db-wal", "allowances.db-shm",
)  # fmt: skip
"""What lies in the data folder and is nobody's document."""


def limits(settings: Settings, *, as_the_user: bool = False) -> Limits:
    """Over HTTP the working folder and the data folder; a process of the user's own reads what the user may."""
    return Limits(
        max_file_bytes=settings.max_file_bytes,
        wait_s=settings.wait_s,
        folders=Folders() if as_the_user and not settings.files.strip() else _named(settings),
    )


def limits_of_accounts(settings: Settings) -> Limits:
    """Who has an account here need not be somebody whom the server's own files are shown to: only what is listed."""
    return replace(limits(settings), folders=_named(settings) if settings.files.strip() else Folders(()))


def _named(settings: Settings) -> Folders:
    working = Path.cwd()
    # A server that was started at the root of the disk does not mean to open all of it.
    default = [settings.data] if working == Path(working.anchor) else [working, settings.data]
    return Folders.named(settings.files, default, private=[settings.data / name for name in OWN])
