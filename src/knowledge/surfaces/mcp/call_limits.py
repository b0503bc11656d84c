"""Makes the limits and links of tool calls from the settings: file size, wait, allowed folders and addresses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from knowledge.config import Settings
from knowledge.toolsets.base import CallLimits
from knowledge.toolsets.file_access import AllowedFolders
from knowledge.toolsets.values import ServerLinks

PRIVATE_NAMES = (
    "knowledge.db", "knowledge.db-wal", "knowledge.db-shm", "engine.json", "files", "index", "models", "uploads",
    "mcp_session.key", "allowances.db", "allowances.db-wal", "allowances.db-shm",
)  # fmt: skip
"""Files of the server inside the data folder, which tools must not read."""


def make_call_limits(settings: Settings, *, as_user: bool = False) -> CallLimits:
    """Return the limits of tool calls.

    KNOWLEDGE_FILES lists the allowed folders. Its default is the working folder and the data folder, or everything
    that the user can read if `as_user` is set (stdio runs as the user).
    """
    return CallLimits(
        max_file_bytes=settings.max_file_bytes,
        wait_s=settings.wait_s,
        answer_chars=settings.answer_chars,
        min_relevance=settings.min_relevance,
        trusted_only=settings.trusted_only,
        folders=AllowedFolders() if as_user and not settings.files.strip() else _find_allowed_folders(settings),
    )


def make_account_limits(settings: Settings) -> CallLimits:
    """Return the limits of accounts, which may open files only below the folders in KNOWLEDGE_FILES."""
    return replace(
        make_call_limits(settings),
        folders=_find_allowed_folders(settings) if settings.files.strip() else AllowedFolders(()),
    )


def make_server_links(settings: Settings) -> ServerLinks:
    """Return the links to this server; without KNOWLEDGE_PUBLIC_URL each request adds its own address."""
    return ServerLinks(base_url=settings.public_url, has_page=settings.page)


def _find_allowed_folders(settings: Settings) -> AllowedFolders:
    working = Path.cwd()
    # A service manager often starts servers in /, which must not open the whole disk.
    default = [settings.data] if working == Path(working.anchor) else [working, settings.data]
    return AllowedFolders.from_setting(
        settings.files, default, private=[settings.data / name for name in PRIVATE_NAMES]
    )
