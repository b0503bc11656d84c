"""Tokens of an authorization server elsewhere: JWTs that are verified with its published keys (JWKS)."""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import jwt

from knowledge.engine.api import Engine
from knowledge.errors import ExpiredKey, Unavailable
from knowledge.model import now
from knowledge.model.oauth import ACCESS_SECONDS, ForeignSubject, expand_scopes
from knowledge.surfaces.oauth.resources import ProtectedResources

log = logging.getLogger(__name__)

JWT_FORM = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures with a public key alone: a shared secret or `none` is never accepted (RFC 8725 §3.1)."""
REQUIRED_CLAIMS = ["exp", "iss", "aud", "sub"]
MAX_TOKEN_CHARS = 16_000
MAX_METADATA_BYTES = 1 << 20
LEEWAY_SECONDS = 30
FRESH_SECONDS, RETRY_SECONDS = 600.0, 30.0
"""How long keys are kept, and how soon an unknown key id asks for them again."""
MAX_ADMITTED = 2000
SCOPE_SEPARATORS = re.compile(r"[/:.]")


class ForeignIssuer:
    def __init__(
        self, engine: Engine, resources: ProtectedResources, issuer: str, audience: str = "", *, create: bool = False
    ) -> None:
        self._engine, self._resources = engine, resources
        self._issuer, self._audience, self._create = issuer, audience, create
        self._keys: list[dict[str, Any]] | None = None
        self._fetched_at = -FRESH_SECONDS
        self._lock = anyio.Lock()
        self._admitted: OrderedDict[bytes, tuple[str, datetime]] = OrderedDict()

    def recognizes(self, key: str) -> bool:
        return len(key) <= MAX_TOKEN_CHARS and JWT_FORM.fullmatch(key) is not None

    async def exchange(self, token: str, path: str) -> str:
        """Return our own access token for a JWT that holds for a path; raises ExpiredKey."""
        key = hashlib.sha256(f"{self._resources.find_path(path)} {token}".encode()).digest()
        known = self._admitted.get(key)
        if known is not None and known[1] > now():
            return known[0]
        subject = self._read_subject(await self._verify(token), path)
        own = await self._engine.oauth.admit_subject(subject, self._create)
        if own is None:
            raise ExpiredKey(
                f"The user '{subject.name[:64]}' of {self._issuer} has no account here",
                hint="Ask the operator for one: 'knowledge user link USERNAME SUBJECT'.",
            )
        self._admitted[key] = own, subject.expires_at
        while len(self._admitted) > MAX_ADMITTED:
            self._admitted.popitem(last=False)
        return own

    async def _verify(self, token: str) -> dict[str, Any]:
        """Check signature, algorithm, issuer, audience and expiry, and return the claims."""
        try:
            header = jwt.get_unverified_header(token)
            key = await self._find_key(header.get("kid"), str(header.get("alg")))
            audiences = [self._resources.origin + path for path in self._resources.paths]
            return jwt.decode(
                token,
                key=key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=[*audiences, *(f"{known}/" for known in audiences), *filter(None, [self._audience])],
                leeway=LEEWAY_SECONDS,
                options={"require": REQUIRED_CLAIMS},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise ExpiredKey(
                f"The access token of {self._issuer} is not valid: {str(error)[:200]}", hint="Get a new token."
            ) from error

    def _read_subject(self, claims: Mapping[str, Any], path: str) -> ForeignSubject:
        audience = claims["aud"]
        given = [audience] if isinstance(audience, str) else [each for each in audience if isinstance(each, str)]
        known = [found for each in given if (found := self._resources.parse(each)) is not None]
        if self._audience and self._audience in given:
            known.append(self._resources.origin)
        covering = [each for each in known if self._resources.covers(each, path)]
        resource = min(covering or known, key=len)
        ends = datetime.fromtimestamp(claims["exp"], UTC)
        name = claims.get("preferred_username") or claims.get("email") or claims["sub"]
        return ForeignSubject(
            issuer=self._issuer,
            subject=str(claims["sub"]),
            name=str(name).partition("@")[0],
            client_id=str(claims.get("client_id") or claims.get("azp") or ""),
            resource=resource,
            scopes=read_scopes(claims.get("scope", claims.get("scp", ""))),
            expires_at=min(ends, now() + timedelta(seconds=ACCESS_SECONDS)),
        )

    # -- keys -----------------------------------------------------------------------------------

    async def _find_key(self, kid: str | None, algorithm: str) -> jwt.PyJWK:
        """Return the key of a token; an unknown id asks the issuer for new keys, at most twice a minute."""
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError(f"The algorithm {algorithm[:20]} is not allowed")
        for max_age in (FRESH_SECONDS, RETRY_SECONDS):
            for key in await self._load_keys(max_age):
                fits = key.get("alg", algorithm) == algorithm and key.get("use", "sig") == "sig"
                if fits and (kid is None or key.get("kid") == kid):
                    return jwt.PyJWK(key, algorithm)
        raise jwt.InvalidKeyError("The issuer has no such key")

    async def _load_keys(self, max_age: float) -> list[dict[str, Any]]:
        async with self._lock:
            if self._keys is None or time.monotonic() - self._fetched_at > max_age:
                try:
                    self._keys = await fetch_keys(self._issuer)
                except (httpx.HTTPError, jwt.PyJWTError, ValueError, KeyError, TypeError) as error:
                    log.warning("the keys of %s could not be read: %s", self._issuer, error)
                    if self._keys is None:
                        raise Unavailable(
                            f"The keys of {self._issuer} could not be read",
                            hint="Try again in a minute.",
                            retry_after=30,
                        ) from error
                self._fetched_at = time.monotonic()
            return self._keys


def read_scopes(given: object) -> tuple[str, ...]:
    """Return the scopes of a claim; other servers put a name before ours, as in `api://knowledge/read`."""
    words = (
        given.split() if isinstance(given, str) else [str(each) for each in given] if isinstance(given, list) else []
    )
    return expand_scopes(SCOPE_SEPARATORS.split(word)[-1] for word in words)


async def fetch_keys(issuer: str) -> list[dict[str, Any]]:
    """Find the keys of an issuer by its metadata (RFC 8414, OpenID Connect Discovery)."""
    async with httpx.AsyncClient(timeout=10.0, follow_redirects=False) as http:
        for url in list_metadata_urls(issuer):
            answer = await http.get(url, headers={"Accept": "application/json"})
            if answer.status_code != 200:
                continue
            found = _read_json(answer)
            if found.get("issuer") != issuer:
                raise ValueError(f"{url} names another issuer")
            keys = await http.get(check_keys_url(str(found["jwks_uri"]), issuer))
            keys.raise_for_status()
            return [key for key in _read_json(keys)["keys"] if isinstance(key, dict)]
    raise ValueError("the issuer has no metadata")


def list_metadata_urls(issuer: str) -> list[str]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    ]


def check_keys_url(url: str, issuer: str) -> str:
    if urlsplit(url).scheme != "https" and urlsplit(issuer).scheme == "https":
        raise ValueError("the jwks_uri is not https")
    return url


def _read_json(answer: httpx.Response) -> dict[str, Any]:
    found = answer.json() if len(answer.content) <= MAX_METADATA_BYTES else None
    if not isinstance(found, dict):
        raise ValueError(f"{answer.url} is no JSON object")
    return found
