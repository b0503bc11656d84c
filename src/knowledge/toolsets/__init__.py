"""The contracts, in the order in which clients see them."""

from __future__ import annotations

from knowledge.toolsets import knowledge
from knowledge.toolsets.base import Registry


def registry() -> Registry:
    return Registry([knowledge.tools])
