"""Client ID metadata documents: JSON at an https URL, which is the id of the client that it describes.

https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from knowledge.engine.fetch.client import Fetcher, FetchTimeouts, check_url
from knowledge.engine.fetch.ssrf import AllowedHosts
from knowledge.engine.oauth.redirect_uris import MAX_REDIRECT_URIS, find_redirect_problem
from knowledge.errors import FetchFailed, Invalid, KnowledgeError
from knowledge.model.oauth import OAuthClient

MAX_DOCUMENT_BYTES = 5 << 10
MAX_CLIENT_ID_CHARS = 1000
MAX_NAME_CHARS = 100
TIMEOUTS = FetchTimeouts(connect=5.0, read=5.0, total=10.0)
MIN_FRESH, DEFAULT_FRESH, MAX_FRESH = timedelta(minutes=1), timedelta(hours=1), timedelta(hours=24)
MAX_AGE = re.compile(r"\bmax-age=([0-9]{1,9})\b", re.IGNORECASE)
UNCACHED = re.compile(r"\bno-(store|cache)\b", re.IGNORECASE)
SHARED_SECRET_METHODS = frozenset({"client_secret_basic", "client_secret_post", "client_secret_jwt"})


@dataclass(frozen=True, slots=True)
class FetchedClient:
    client: OAuthClient
    fresh_for: timedelta


class ClientDocument(BaseModel):
    """The properties that are read; others are ignored."""

    model_config = ConfigDict(extra="allow", strict=True)

    client_id: str
    client_name: str = Field(min_length=1)
    redirect_uris: list[str] = Field(min_length=1, max_length=MAX_REDIRECT_URIS)
    token_endpoint_auth_method: str = "none"


def is_document_url(client_id: str) -> bool:
    """Whether a client id has the form of a document's URL: https with a path and no fragment, user or dot segment."""
    if not client_id.startswith("https://") or len(client_id) > MAX_CLIENT_ID_CHARS:
        return False
    try:
        check_url(client_id)
        parts = urlsplit(client_id)
    except (KnowledgeError, ValueError):
        return False
    segments = parts.path.split("/")
    return parts.path not in ("", "/") and "#" not in client_id and not {".", ".."} & set(segments)


async def fetch_client(url: str, allowed: AllowedHosts) -> FetchedClient:
    """Fetch a document with SSRF protection and without following redirects."""
    async with Fetcher(allowed, TIMEOUTS) as fetcher:
        answer = await fetcher.get(url, MAX_DOCUMENT_BYTES, {"Accept": "application/json"})
    if answer.status != 200:
        raise FetchFailed(f"The client's metadata document answered with status {answer.status}", url=url)
    if not (answer.content_type == "application/json" or answer.content_type.endswith("+json")):
        raise FetchFailed("The client's metadata document is not JSON", url=url)
    return FetchedClient(parse_document(url, answer.body), _compute_freshness(answer.headers.get("cache-control", "")))


def parse_document(url: str, body: bytes) -> OAuthClient:
    """Check a document and return its client; raises Invalid."""
    try:
        found = ClientDocument.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "document"
        raise Invalid(f"The client's metadata document is not valid: {place}: {first['msg']}") from error
    if found.client_id != url:
        raise Invalid("The client's metadata document names another client_id than its URL")
    if found.token_endpoint_auth_method in SHARED_SECRET_METHODS or "client_secret" in (found.model_extra or {}):
        raise Invalid("The client's metadata document must not use a shared secret")
    for uri in found.redirect_uris:
        problem = find_redirect_problem(uri)
        if problem is not None:
            raise Invalid(f"The client's redirect URI '{uri[:100]}' {problem}")
    return OAuthClient(url, clean_name(found.client_name), tuple(found.redirect_uris), True)


def clean_name(name: str) -> str:
    """Return the name of a client as one printable line of limited length."""
    return "".join(letter for letter in name if letter.isprintable())[:MAX_NAME_CHARS].strip()


def _compute_freshness(cache_control: str) -> timedelta:
    if UNCACHED.search(cache_control):
        return MIN_FRESH
    found = MAX_AGE.search(cache_control)
    given = DEFAULT_FRESH if found is None else timedelta(seconds=int(found[1]))
    return min(max(given, MIN_FRESH), MAX_FRESH)
