"""Warnings about insecure keys: short keys, and a surface without a key beside one with a key."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import SecretStr

from knowledge.config import Settings
from knowledge.surfaces.http.auth import is_local_only

log = logging.getLogger(__name__)

MIN_KEY_CHARS = 16
"""Shorter keys can be guessed."""
SURFACE_NAMES = {"KB_API_KEY": "REST", "KB_MCP_API_KEY": "MCP"}


@dataclass(frozen=True, slots=True)
class Exposure:
    """A warning and its fix."""

    message: str
    fix: str


def find_short_keys(settings: Settings) -> Iterator[Exposure]:
    """Warn about operator's keys that are short enough to be guessed."""
    for name, key in _read_operator_keys(settings).items():
        length = MIN_KEY_CHARS if key is None else len(key.get_secret_value())
        if length < MIN_KEY_CHARS:
            yield Exposure(
                f"{name} has only {length} characters and can be guessed.",
                f"Set a key of at least {MIN_KEY_CHARS} random characters, for example from 'openssl rand -hex 16'.",
            )


def find_open_surfaces(settings: Settings, *, accounts: bool) -> Iterator[Exposure]:
    """Warn about a surface that needs no key although the other one does, or although there are accounts."""
    keys = _read_operator_keys(settings)
    missing = [name for name, key in keys.items() if key is None]
    if not missing or not (settings.allow_open or is_local_only(settings)):
        return
    reasons = [f"{name} is set" for name, key in keys.items() if key is not None]
    reasons += ["there are accounts"] if accounts else []
    reasons += ["KNOWLEDGE_ALLOW_OPEN is set"] if settings.allow_open else []
    if reasons:
        surfaces = " and ".join(SURFACE_NAMES[name] for name in missing) + (" need" if len(missing) > 1 else " needs")
        reach = "anyone who reaches it" if settings.allow_open else "every user of this machine"
        yield Exposure(
            f"{_join_as_sentence(reasons)}, but {surfaces} no key: {reach} acts there as the owner of the server.",
            f"Set {' and '.join(missing)}.",
        )


def log_exposures(exposures: Iterable[Exposure]) -> None:
    for exposure in exposures:
        log.warning("%s %s", exposure.message, exposure.fix)


def _read_operator_keys(settings: Settings) -> dict[str, SecretStr | None]:
    return {"KB_API_KEY": settings.api_key, "KB_MCP_API_KEY": settings.mcp_api_key}


def _join_as_sentence(parts: list[str]) -> str:
    text = " and ".join(parts)
    return text[:1].upper() + text[1:]
