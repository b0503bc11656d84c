"""The contracts, in the order in which clients see them."""

from __future__ import annotations

from knowledge.toolsets import knowledge
from knowledge.toolsets.base import Registry
from knowledge.toolsets.rag.tools import tools as rag
from knowledge.toolsets.sage.tools import tools as sage


def registry() -> Registry:
    return Registry([knowledge.tools, rag, sage])
