"""Turns the errors of S3 into sentences that say what to do."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
)

from knowledge.blobs.s3.bucket_url import BucketUrl
from knowledge.errors import OriginalsRefused, OriginalsUnavailable

MISSING_KEY_CODES = {"404", "NoSuchKey", "NotFound"}
EXISTS_CODES = {"412", "PreconditionFailed"}
CONFLICT_CODES = {"409", "ConditionalRequestConflict"}
UNKNOWN_CONDITION_CODES = {"501", "NotImplemented"}
WRONG_KEY_CODES = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "InvalidToken",
    "ExpiredToken",
    "TokenRefreshRequired",
}
REGION_CODES = {"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
NEEDED_PERMISSIONS = "s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on its objects"
CREDENTIALS_HINT = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role that may use the bucket."
)


def get_code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def wrap_s3_error(error: ClientError | BotoCoreError, url: BucketUrl) -> OriginalsUnavailable:
    """Return the error of this program for an error of S3 that is not about a missing object."""
    if isinstance(error, ClientError):
        return _wrap_answer(error, url)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return OriginalsRefused(f"No credentials for {url} were found", hint=CREDENTIALS_HINT)
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError):
        return OriginalsUnavailable(f"The originals in {url} do not answer in time", reason=str(error))
    if isinstance(error, EndpointConnectionError):
        return OriginalsUnavailable(f"The originals in {url} cannot be reached", reason=str(error))
    return OriginalsUnavailable(f"The originals in {url} cannot be used: {error}", reason=str(error))


def _wrap_answer(error: ClientError, url: BucketUrl) -> OriginalsUnavailable:
    code, metadata = get_code(error), error.response.get("ResponseMetadata", {})
    if code == "NoSuchBucket":
        return OriginalsRefused(
            f"The bucket '{url.bucket}' of {url} does not exist",
            hint="Create the bucket, or correct KNOWLEDGE_ORIGINALS_URL.",
        )
    if code in WRONG_KEY_CODES:
        return OriginalsRefused(f"The credentials for {url} were refused ({code})", hint=CREDENTIALS_HINT)
    if code in REGION_CODES:
        return _make_region_error(error, metadata, url)
    if code in ("403", "AccessDenied", "AllAccessDisabled", "AccountProblem"):
        return OriginalsRefused(
            f"Access to {url} was denied: the credentials may not call {error.operation_name}",
            hint=f"Allow {NEEDED_PERMISSIONS}.",
        )
    status = metadata.get("HTTPStatusCode", 0)
    return OriginalsUnavailable(
        f"The originals in {url} cannot be used: {error.operation_name} failed with {status} {code}", reason=str(error)
    )


def _make_region_error(error: ClientError, metadata: dict[str, Any], url: BucketUrl) -> OriginalsRefused:
    found = error.response.get("Error", {}).get("Region") or metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region")
    where = f"in the region {found}" if found else "in another region"
    return OriginalsRefused(
        f"The bucket '{url.bucket}' is {where}, and not in {url.region}",
        hint=f"Set AWS_REGION to {found or 'the region of the bucket'}.",
    )
