"""The static files of the page: read, hashed and compressed once, and served with immutable addresses."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import NotFound
from knowledge.surfaces.http.page_headers import PAGE_HEADERS
from knowledge.surfaces.http.responses import json_error_response

STATIC_PATH = "/static"
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}
IMMUTABLE = "public, max-age=31536000, immutable"
HASH_CHARS = 16
MODULE_IMPORT = re.compile(r'^(?:import|export)\b[^;"\']*["\'](\.{1,2}/[^"\']+)["\'];?$', re.MULTILINE)
"""A static import; modules that a page loads with import() are not part of the first page."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file in memory, plain and compressed."""

    media_type: str
    plain: bytes
    gzipped: bytes
    digest: str

    @classmethod
    def from_bytes(cls, name: str, content: bytes) -> Asset:
        digest = hashlib.sha256(content).hexdigest()[:HASH_CHARS]
        packed = gzip.compress(content, 9, mtime=0)
        return cls(MEDIA_TYPES[PurePosixPath(name).suffix], content, packed, digest)

    def respond(self, headers: Headers, cache_control: str) -> Response:
        """Build the response: compressed if the client accepts gzip, 304 if it has this version."""
        packed = accepts_gzip(headers.get("accept-encoding", ""))
        etag = f'"{self.digest}{"-gzip" if packed else ""}"'
        sent = {**PAGE_HEADERS, "ETag": etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
        known = {tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")}
        if etag in known or "*" in known:
            return Response(status_code=304, headers=sent)
        if packed:
            sent["Content-Encoding"] = "gzip"
        return Response(self.gzipped if packed else self.plain, headers=sent, media_type=self.media_type)


@dataclass(frozen=True, slots=True)
class Assets:
    """All files of a folder by their relative path, and one hash over all of them for their addresses."""

    by_name: Mapping[str, Asset]
    version: str = field(init=False)

    def __post_init__(self) -> None:
        together = "".join(f"{name}:{asset.digest};" for name, asset in sorted(self.by_name.items()))
        object.__setattr__(self, "version", hashlib.sha256(together.encode()).hexdigest()[:HASH_CHARS])

    @classmethod
    def read_package(cls) -> Assets:
        return cls({name: Asset.from_bytes(name, content) for name, content in _walk(_static_folder())})

    def path_of(self, name: str) -> str:
        """Return the address of a file; it changes when any file changes, because modules import each other."""
        return f"{STATIC_PATH}/{self.version}/{name}"

    def list_modules(self, entry: str) -> list[str]:
        """Return a module and everything that it imports, in the order in which the browser meets them."""
        found, waiting = [entry], [entry]
        while waiting:
            name = waiting.pop(0)
            for target in MODULE_IMPORT.findall(self.by_name[name].plain.decode()):
                module = _resolve(name, target)
                if module not in found:
                    found.append(module)
                    waiting.append(module)
        return found

    async def serve(self, request: Request) -> Response:
        """Answer /static/HASH/NAME; another hash is another version of the page, which this server does not have."""
        version, name = request.path_params["version"], request.path_params["name"]
        asset = self.by_name.get(name) if version == self.version else None
        if asset is None:
            return json_error_response(NotFound("There is no such file", hint="Load the page again."))
        return asset.respond(request.headers, IMMUTABLE)


def accepts_gzip(header: str) -> bool:
    for choice in header.lower().split(","):
        name, _, parameter = choice.partition(";")
        if name.strip() in ("gzip", "*"):
            return parameter.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _static_folder() -> Traversable:
    return files("knowledge.surfaces.web").joinpath("static")


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif PurePosixPath(entry.name).suffix in MEDIA_TYPES:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _resolve(importer: str, target: str) -> str:
    parts = list(PurePosixPath(importer).parent.parts)
    for part in PurePosixPath(target).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
