"""Opens the originals of an engine, and checks that every server of a database uses the same ones."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge.blobs.api import Blobs
from knowledge.blobs.folder import FolderBlobs
from knowledge.blobs.s3.bucket_url import BucketUrl
from knowledge.errors import MissingDependency, OriginalsRefused, OriginalsUnavailable, StorageFailed
from knowledge.store.cluster.leases import LeaseStore
from knowledge.store.cluster.stored_originals import UnreferencedOriginalStore, read_originals_id, store_originals_id
from knowledge.store.database import Database
from knowledge.store.postgres.locks import run_with_file_lock

if TYPE_CHECKING:
    from knowledge.blobs.s3.originals import S3Blobs

log = logging.getLogger(__name__)

BACKUP_LEASE_PREFIX = "backup-"
"""Beginning of the name of the lease that keeps originals while a server makes a backup; the rest is its id."""


def open_folder(database: Database, folder: Path, *, is_shared: bool) -> Blobs:
    """Open a folder of originals; a shared one must be the one that the database knows."""
    if not is_shared:
        return FolderBlobs(folder)
    is_held = partial(LeaseStore(database, "").is_any_held, BACKUP_LEASE_PREFIX)
    blobs = FolderBlobs(folder, partial(run_with_file_lock, database), is_held)
    check_originals(database, blobs)
    return blobs


def open_bucket(database: Database, url: BucketUrl, data: Path, cache_bytes: int) -> Blobs:
    """Open a bucket of originals; one that cannot be reached now is checked before the first original is stored."""
    blobs = make_bucket_blobs(database, url, data, cache_bytes)
    try:
        check_originals(database, blobs)
    except OriginalsRefused:
        raise
    except OriginalsUnavailable as error:
        log.warning("%s; searches work, and documents can be added when it is back", error)
        blobs.check_place = partial(check_originals, database, blobs)
    return blobs


def make_bucket_blobs(database: Database, url: BucketUrl, data: Path, cache_bytes: int) -> S3Blobs:
    """Open a bucket without a look at it."""
    try:
        from knowledge.blobs.s3.bucket import Bucket  # lazy: needs the extra
        from knowledge.blobs.s3.originals import S3Blobs
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "KNOWLEDGE_ORIGINALS_URL needs the package boto3, which is not installed",
            hint="pip install 'knowledge-server[cluster]'",
        ) from error
    return S3Blobs(
        Bucket(url), data, cache_bytes, partial(run_with_file_lock, database), UnreferencedOriginalStore(database)
    )


def check_originals(database: Database, blobs: Blobs) -> None:
    """Mark the originals of a new database; raise StorageFailed if these are not the ones that the database knows."""
    known = read_originals_id(database) or store_originals_id(database, blobs.find_or_make_marker())
    if not blobs.has_marker(known):
        raise StorageFailed(
            f"The place of originals {blobs.location} is not the one that the other servers of this database use",
            hint="Set KNOWLEDGE_ORIGINALS to the shared folder, mounted on this machine, or KNOWLEDGE_ORIGINALS_URL to "
            f"the bucket. If the originals were copied, copy the empty folder or object originals-{known} too.",
            location=blobs.location,
        )
