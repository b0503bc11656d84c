"""Parses KNOWLEDGE_ORIGINALS_URL: s3://BUCKET/PREFIX?endpoint=URL&region=NAME."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from knowledge.errors import InvalidParameter

EXAMPLE = "s3://BUCKET/PREFIX, or s3://BUCKET/PREFIX?endpoint=https://HOST:PORT for a server of your own"
BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
PARAMETERS = {"endpoint", "region"}
DEFAULT_REGION = "us-east-1"
"""Region of the signature if none is set; servers other than AWS ignore it."""


@dataclass(frozen=True, slots=True)
class BucketUrl:
    bucket: str
    prefix: str
    """Empty, or ends with a slash."""
    endpoint: str | None = None
    region: str = DEFAULT_REGION

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" + (f" at {self.endpoint}" if self.endpoint else "")


def parse_bucket_url(url: str) -> BucketUrl:
    """Parse the URL; the region comes from it, or from AWS_REGION or AWS_DEFAULT_REGION."""
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise _refuse(f"is not a URL: {error}") from error
    if parts.scheme != "s3":
        raise _refuse("does not begin with s3://")
    if "@" in parts.netloc:
        raise _refuse("contains credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
    if not BUCKET_NAME.fullmatch(parts.netloc):
        raise _refuse(f"has no valid bucket name: '{parts.netloc}'")
    unknown = sorted(given.keys() - PARAMETERS)
    if unknown or parts.fragment:
        raise _refuse(f"has an unknown part: '{unknown[0] if unknown else parts.fragment}'")
    prefix = parts.path.strip("/")
    return BucketUrl(
        bucket=parts.netloc,
        prefix=f"{prefix}/" if prefix else "",
        endpoint=_check_endpoint(given["endpoint"]) if "endpoint" in given else None,
        region=given.get("region")
        or os.environ.get("AWS_REGION")
        or os.environ.get("AWS_DEFAULT_REGION")
        or DEFAULT_REGION,
    )


def _check_endpoint(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise _refuse(f"has no valid endpoint: '{endpoint}'")
    return endpoint.rstrip("/")


def _refuse(problem: str) -> InvalidParameter:
    return InvalidParameter(
        f"KNOWLEDGE_ORIGINALS_URL {problem}", hint=f"Set it to {EXAMPLE}.", parameter="originals_url"
    )
