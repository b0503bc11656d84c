"""What the settings allow a call: how large a file, how long a wait, and which folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from knowledge.config import Settings
from knowledge.toolsets.base import CallLimits
from knowledge.toolsets.file_access import AllowedFolders

PRIVATE_NAMES = (
    "knowledge.db", "knowledge.db-wal", "knowledge.db-shm", "engine.json", "files", "index", "models", "uploads",
    "allowances.db", "allowances.db-wal", "allowances.db-shm",
)  # fmt: skip
"""What lies in the data folder and is nobody's document."""


def make_call_limits(settings: Settings, *, as_user: bool = False) -> CallLimits:
    """Over HTTP the working folder and the data folder; a process of the user's own reads what the user may."""
    return CallLimits(
        max_file_bytes=settings.max_file_bytes,
        wait_s=settings.wait_s,
        folders=AllowedFolders() if as_user and not settings.files.strip() else _find_allowed_folders(settings),
    )


def make_account_limits(settings: Settings) -> CallLimits:
    """Who has an account here need not be somebody whom the server's own files are shown to: only what is listed."""
    return replace(
        make_call_limits(settings),
        folders=_find_allowed_folders(settings) if settings.files.strip() else AllowedFolders(()),
    )


def _find_allowed_folders(settings: Settings) -> AllowedFolders:
    working = Path.cwd()
    # A server that was started at the root of the disk does not mean to open all of it.
    default = [settings.data] if working == Path(working.anchor) else [working, settings.data]
    return AllowedFolders.from_setting(
        settings.files, default, private=[settings.data / name for name in PRIVATE_NAMES]
    )
