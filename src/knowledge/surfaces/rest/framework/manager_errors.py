"""The calls that contract 001 brings: their errors bear its codes, and are else like all others."""

from __future__ import annotations

from starlette.responses import Response

from knowledge.errors import KnowledgeError
from knowledge.surfaces.http.responses import refusal
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.toolsets.manager.errors import word


def worded(error: KnowledgeError) -> Response:
    response = refusal(error)
    response.headers["X-MCP-Error-Code"] = word(error).code
    return response


class WordedRoute(Route):
    def refuse(self, error: KnowledgeError) -> Response:
        return worded(error)
