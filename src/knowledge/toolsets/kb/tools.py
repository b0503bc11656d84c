"""The tools of contract 004, in the contract's order."""

from __future__ import annotations

from knowledge.toolsets.kb import lookup, notes, uploads
from knowledge.toolsets.kb import search as search_tool
from knowledge.toolsets.kb.errors import tools

__all__ = ["tools"]

ORDER = (
    "kb_search", "kb_addnote", "kb_upload_start", "kb_upload_chunk", "kb_upload_finish", "kb_update_note", "kb_get",
    "kb_status", "kb_jobs",
)  # fmt: skip
MODULES = (search_tool, notes, uploads, lookup)
"""To import them is to register their tools."""

tools.tools.sort(key=lambda tool: ORDER.index(tool.name))
