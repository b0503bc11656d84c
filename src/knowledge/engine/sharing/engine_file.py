"""The card in the data folder that says where its engine is reached. The lock beside it says whether it is true."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from knowledge import __version__
from knowledge.errors import NotNow

PRODUCT = "knowledge-server"
WIRE = 1
"""Raised when the engine's REST API changes so that an older program could not use it."""
NAME = "engine.json"


@dataclass(frozen=True, slots=True)
class Card:
    url: str
    token: str
    pid: int
    product: str = PRODUCT
    version: str = __version__
    wire: int = WIRE

    @classmethod
    def new(cls, url: str, token: str) -> Card:
        return cls(url, token, os.getpid())


def new_token() -> str:
    return secrets.token_urlsafe(32)


def write(folder: Path, card: Card) -> None:
    """Readable for its owner alone, and never half written."""
    draft = folder / f"{NAME}.{secrets.token_hex(4)}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(card), file)
    draft.replace(folder / NAME)


def read(folder: Path) -> Card | None:
    """The card, if there is one and it is one of ours; another version's is an error in words."""
    try:
        found = json.loads((folder / NAME).read_text("utf-8"))
        card = Card(**{name: found[name] for name in Card.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if card.product != PRODUCT or not card.url.startswith("http://127.0.0.1:"):
        return None
    if card.wire != WIRE:
        raise NotNow(
            f"Version {card.version} of {PRODUCT} is using this data folder, and this is version {__version__}",
            hint=f"Stop process {card.pid}, or use the same version for both.",
            pid=card.pid,
        )
    return card


def remove(folder: Path, card: Card) -> None:
    """Take our own card away; another's stays."""
    if read(folder) == card:
        (folder / NAME).unlink(missing_ok=True)
