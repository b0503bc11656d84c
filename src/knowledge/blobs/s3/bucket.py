"""The objects of one bucket below a prefix: conditional put, range reads, lists. Blocking and thread-safe."""

from __future__ import annotations

import base64
import email.utils
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from knowledge.blobs.s3 import failures
from knowledge.blobs.s3.bucket_url import BucketUrl
from knowledge.errors import OriginalsRefused, OriginalsUnavailable

CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 5, 30, 4
"""Each request is tried so often, with exponential backoff and jitter (the mode `standard` of botocore)."""
PROBE_SECONDS, PROBE_INTERVAL_SECONDS = 2, 1.0
MAX_CONNECTIONS = 64
READ_CHUNK_BYTES = 1 << 20
MAX_RESUMED_READS = 5
CONFLICT_ATTEMPTS = 5
DELETE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class StoredObject:
    key: str
    """The key without the prefix of the URL."""
    size: int
    modified: float
    age_seconds: float
    """By the clock of the server that answered."""


class Bucket:
    def __init__(self, url: BucketUrl) -> None:
        self.url = url
        self._client = _make_client(url, CONNECT_SECONDS, READ_SECONDS, ATTEMPTS)
        self._lock = threading.Lock()
        self._failure: OriginalsUnavailable | None = None
        self._probe_at = 0.0

    # -- writes ---------------------------------------------------------------------------------

    def put_file(self, key: str, path: Path, sha256: str) -> bool:
        """Stream a file to a key unless it exists, checked by its SHA-256; return False if it exists."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        condition = {"IfNoneMatch": "*"}
        for _ in range(CONFLICT_ATTEMPTS):
            with self._translate_errors(), path.open("rb") as file:
                try:
                    self._client.put_object(
                        **self._address(key), Body=file, ContentLength=path.stat().st_size, ChecksumSHA256=checksum,
                        **condition,
                    )  # fmt: skip
                    return True
                except ClientError as error:
                    code = failures.get_code(error)
                    if code in failures.EXISTS_CODES:
                        return False
                    if code in failures.UNKNOWN_CONDITION_CODES and condition:
                        condition = {}  # an older server: writing the same bytes again does no harm
                    elif code not in failures.CONFLICT_CODES:  # another server writes it at this moment
                        raise
        raise OriginalsUnavailable(f"The original {sha256} could not be stored in {self.url}: others write it too")

    def put_bytes(self, key: str, data: bytes) -> None:
        with self._translate_errors():
            self._client.put_object(**self._address(key), Body=data)

    def delete(self, *keys: str) -> None:
        """Delete objects; missing ones are no error."""
        for first in range(0, len(keys), DELETE_BATCH):
            objects = [{"Key": self.url.prefix + key} for key in keys[first : first + DELETE_BATCH]]
            with self._translate_errors():
                answer = self._client.delete_objects(Bucket=self.url.bucket, Delete={"Objects": objects, "Quiet": True})
            failed = answer.get("Errors") or ()
            if failed:
                raise OriginalsRefused(
                    f"{len(failed)} objects of {self.url} could not be deleted: {failed[0].get('Message')}",
                    hint=f"Allow {failures.NEEDED_PERMISSIONS}.",
                )

    # -- reads ----------------------------------------------------------------------------------

    def find(self, key: str) -> StoredObject | None:
        with self._translate_errors():
            try:
                answer = self._client.head_object(**self._address(key))
            except ClientError as error:
                if failures.get_code(error) in failures.MISSING_KEY_CODES:
                    return None
                raise
        modified, now = answer["LastModified"].timestamp(), _read_server_time(answer)
        return StoredObject(key, answer["ContentLength"], modified, now - modified)

    def read_bytes(self, key: str) -> bytes | None:
        """Return a small object; None if it is missing."""
        try:
            return b"".join(self.read(key))
        except FileNotFoundError:
            return None

    def read(self, key: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Yield a range of an object; a connection that breaks is opened again where it broke."""
        resumed = 0
        while stop is None or start < stop:
            try:
                with self._translate_errors(key):
                    for piece in self._open_body(key, start, stop):
                        start += len(piece)
                        yield piece
                    return
            except OriginalsRefused:
                raise
            except OriginalsUnavailable:
                resumed += 1
                if resumed > MAX_RESUMED_READS:
                    raise

    def _open_body(self, key: str, start: int, stop: int | None) -> Iterator[bytes]:
        given = {} if start == 0 and stop is None else {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"}
        try:
            body = self._client.get_object(**self._address(key), **given)["Body"]
        except ClientError as error:
            if failures.get_code(error) in ("416", "InvalidRange"):  # nothing is left behind `start`
                return
            raise
        try:
            yield from body.iter_chunks(READ_CHUNK_BYTES)
        finally:
            body.close()

    def iterate(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose key begins with a prefix, in the order of their keys."""
        token: dict[str, str] = {}
        while True:
            with self._translate_errors():
                answer = self._client.list_objects_v2(Bucket=self.url.bucket, Prefix=self.url.prefix + prefix, **token)
            now = _read_server_time(answer)
            for entry in answer.get("Contents", ()):
                modified = entry["LastModified"].timestamp()
                key = entry["Key"].removeprefix(self.url.prefix)
                yield StoredObject(key, entry["Size"], modified, now - modified)
            if not answer.get("IsTruncated"):
                return
            token = {"ContinuationToken": answer["NextContinuationToken"]}

    # -- failures -------------------------------------------------------------------------------

    def find_failure(self) -> OriginalsUnavailable | None:
        """Return why the last request failed, unless a short request succeeds now."""
        with self._lock:
            failure, due = self._failure, time.monotonic() >= self._probe_at
            if failure is None or not due:
                return failure
            self._probe_at = time.monotonic() + PROBE_INTERVAL_SECONDS
        probe = _make_client(self.url, PROBE_SECONDS, PROBE_SECONDS, 1)
        try:
            with self._translate_errors():
                probe.list_objects_v2(Bucket=self.url.bucket, Prefix=self.url.prefix, MaxKeys=1)
        except OriginalsUnavailable as error:
            return error
        finally:
            probe.close()
        return None

    @contextmanager
    def _translate_errors(self, key: str | None = None) -> Iterator[None]:
        """Raise errors of this program; with a key, a missing object is a FileNotFoundError."""
        try:
            yield
        except ClientError as error:
            if key is not None and failures.get_code(error) in failures.MISSING_KEY_CODES:
                raise FileNotFoundError(key) from error
            raise self._remember(failures.wrap_s3_error(error, self.url)) from error
        except BotoCoreError as error:
            raise self._remember(failures.wrap_s3_error(error, self.url)) from error
        self._failure = None

    def _remember(self, failure: OriginalsUnavailable) -> OriginalsUnavailable:
        with self._lock:
            if self._failure is None:
                self._probe_at = time.monotonic() + PROBE_INTERVAL_SECONDS
            self._failure = failure
        return failure

    def _address(self, key: str) -> dict[str, str]:
        return {"Bucket": self.url.bucket, "Key": self.url.prefix + key}


def _make_client(url: BucketUrl, connect_seconds: float, read_seconds: float, attempts: int) -> Any:
    # Endpoints of other products rarely have a name for each bucket, and not all understand trailing checksums.
    config = Config(
        connect_timeout=connect_seconds,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=MAX_CONNECTIONS,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "path" if url.endpoint else "auto"},
    )
    return boto3.Session().client("s3", endpoint_url=url.endpoint, region_name=url.region, config=config)


def _read_server_time(answer: dict[str, Any]) -> float:
    """Return the time of the answer by the clock of its server, with which its other times are compared."""
    header = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    try:
        return email.utils.parsedate_to_datetime(header).timestamp() if header else time.time()
    except ValueError:
        return time.time()
