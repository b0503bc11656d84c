"""The tools of contract 002, in the contract's order, each with a voice that names the next call."""

from __future__ import annotations

from dataclasses import replace

from knowledge.toolsets.rag import crawls, documents, sources
from knowledge.toolsets.rag import search as search_tool
from knowledge.toolsets.rag.errors import naming, tools

__all__ = ["tools"]

ORDER = ("search_knowledge_base", "manage_document", "manage_source", "crawl_website", "manage_crawl_job")
MODULES = (search_tool, documents, sources, crawls)
"""To import them is to register their tools."""

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
tools.tools[:] = [replace(tool, voice=naming(tool.name)) for tool in tools.tools]
