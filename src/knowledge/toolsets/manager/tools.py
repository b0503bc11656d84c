"""The tools of contract 001, in the contract's order, and its resources."""

from __future__ import annotations

from knowledge.toolsets.manager import listing, searching
from knowledge.toolsets.manager.corpora import CorpusResources
from knowledge.toolsets.manager.words import tools

__all__ = ["tools"]

ORDER = ("query_knowledge", "query_corpus", "list_collections", "list_corpuses")
MODULES = (searching, listing)
"""To import them is to register their tools."""

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
tools.resources = CorpusResources()
