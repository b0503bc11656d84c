"""The tools of contract 001, in the contract's order, and its resources."""

from __future__ import annotations

from knowledge.toolsets.manager import list as list_tools
from knowledge.toolsets.manager import query
from knowledge.toolsets.manager.errors import tools
from knowledge.toolsets.manager.resources import CorpusResources

__all__ = ["tools"]

ORDER = ("query_knowledge", "query_corpus", "list_collections", "list_corpuses")
MODULES = (query, list_tools)
"""To import them is to register their tools."""

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
tools.resources = CorpusResources()
