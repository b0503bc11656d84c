"""The registry of all toolsets, in the order in which clients see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge.toolsets.base import Registry


def make_registry() -> Registry:
    # Imported on demand: importing one toolset, such as sage, must not import the others.
    from knowledge.toolsets.base import Registry
    from knowledge.toolsets.connector.tools import tools as connector
    from knowledge.toolsets.document_resources import DocumentResources
    from knowledge.toolsets.kb.tools import tools as kb
    from knowledge.toolsets.knowledge import tools as knowledge_tools
    from knowledge.toolsets.manager.tools import tools as manager
    from knowledge.toolsets.rag.tools import tools as rag
    from knowledge.toolsets.sage.tools import tools as sage

    return Registry([knowledge_tools.tools, manager, rag, sage, kb, connector], DocumentResources())
