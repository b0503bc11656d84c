"""The protected resources of this server (RFC 9728): each MCP endpoint, and the origin for REST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from knowledge.model.oauth import OAuthScope

METADATA_PATH = "/.well-known/oauth-protected-resource"
DEFAULT_PATH = "/mcp"
"""The resource of a client that names none, as older clients do."""
READ_ONLY_SUFFIX = "/readonly"


@dataclass(frozen=True, slots=True)
class ProtectedResources:
    origin: str
    """KNOWLEDGE_PUBLIC_URL."""
    paths: frozenset[str]
    """Paths of the MCP endpoints; the empty path is the origin, which REST belongs to."""

    @classmethod
    def for_toolsets(cls, origin: str, toolsets: Sequence[str]) -> ProtectedResources:
        endpoints = ["/mcp", *(path for name in toolsets for path in (f"/mcp/{name}", f"/{name}/mcp"))]
        paths = {"", *endpoints, *(path + READ_ONLY_SUFFIX for path in endpoints)}
        return cls(origin, frozenset(paths | ({"/api/v1/mcp"} if "manager" in toolsets else set())))

    def parse(self, resource: str | None) -> str | None:
        """Return the canonical URL of a `resource` parameter (RFC 8707); None if this server does not have it."""
        if not resource:
            return self.origin + DEFAULT_PATH
        try:
            parts = urlsplit(resource)
            given = f"{parts.scheme.lower()}://{parts.netloc.lower()}"
        except ValueError:
            return None
        path = parts.path.rstrip("/")
        known = given == self.origin and path in self.paths and not parts.query and "#" not in resource
        return self.origin + path if known else None

    def find_path(self, path: str) -> str:
        """Return the path of the resource that a request belongs to."""
        path = path.rstrip("/")
        return path if path in self.paths else ""

    def covers(self, resource: str, path: str) -> bool:
        """Whether a token for a resource holds for a path: the same, or one below it."""
        base = resource.removeprefix(self.origin)
        return resource.startswith(self.origin) and (path == base or path.startswith(f"{base}/"))

    def list_scopes(self, path: str) -> list[str]:
        """Return the scopes that a client should ask for; the user can take away what is too much."""
        read_only = path.endswith(READ_ONLY_SUFFIX)
        return [OAuthScope.READ] if read_only else [OAuthScope.READ, OAuthScope.WRITE]

    def metadata_url(self, path: str) -> str:
        return f"{self.origin}{METADATA_PATH}{path}"
