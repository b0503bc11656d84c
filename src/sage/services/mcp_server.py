"""`python -m sage.services.mcp_server`: MCP over HTTP on `mcp.host` and `mcp.port`, at /mcp."""

from __future__ import annotations

import asyncio
import sys

from knowledge.errors import KnowledgeError
from knowledge.toolsets.sage.configuration import load_configuration


def main() -> int:
    from knowledge.surfaces.sage import serve_http

    try:
        asyncio.run(serve_http(load_configuration()))
    except KnowledgeError as error:
        sys.stderr.write(f"{error}. {error.hint}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
