"""Checks that every server of a database uses the same originals."""

from __future__ import annotations

from knowledge.blobs.api import Blobs
from knowledge.errors import StorageFailed
from knowledge.store.cluster.originals_id import read_originals_id, store_originals_id
from knowledge.store.database import Database


def check_originals(database: Database, blobs: Blobs) -> None:
    """Mark the originals of a new database; raise StorageFailed if these are not the ones that the database knows."""
    known = read_originals_id(database) or store_originals_id(database, blobs.find_or_make_marker())
    if not blobs.has_marker(known):
        raise StorageFailed(
            f"The originals in {blobs.location} are not those that the other servers of this database use",
            hint="Set KNOWLEDGE_ORIGINALS to the shared folder, mounted on this machine, or KNOWLEDGE_ORIGINALS_URL to "
            f"the bucket. If the originals were copied, copy the empty folder or object originals-{known} too.",
            location=blobs.location,
        )
