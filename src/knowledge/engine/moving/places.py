"""Where data can be: a folder with SQLite, or a PostgreSQL database with originals in a folder or a bucket."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from knowledge.blobs.api import Blobs
from knowledge.blobs.folder import FolderBlobs
from knowledge.blobs.s3.bucket_url import parse_bucket_url
from knowledge.engine.cluster.originals import make_bucket_blobs, open_bucket
from knowledge.engine.data_folder import open_database
from knowledge.engine.sharing.leader import hold_data_folder
from knowledge.errors import InvalidParameter, NotNow
from knowledge.filesystem import file_modes
from knowledge.store.database import Database
from knowledge.store.sqlite import DATABASE_NAME
from knowledge.store.transfer.exclusive import hold_database

FOLDER_PREFIX = "folder:"
CACHE_BYTES = 10 << 20
"""Local copies of originals in a bucket, of which a move needs none."""
ALLOWED_NAMES = {"engine.lock", "engine.json", "files", DATABASE_NAME, f"{DATABASE_NAME}-wal", f"{DATABASE_NAME}-shm"}
"""What a folder may contain that data is moved to; rows in its database are refused later."""


@dataclass(frozen=True, slots=True)
class DataPlace:
    """A database and its originals."""

    data: Path
    database_url: str | None = field(default=None, repr=False)
    originals: str = ""
    """A folder or the URL of a bucket; empty is the folder 'files' of the data folder."""

    @property
    def is_bucket(self) -> bool:
        return "://" in self.originals

    @property
    def originals_location(self) -> str:
        return self.originals or str(self.data / "files")

    def describe(self) -> str:
        """Name the place without user and password."""
        if self.database_url is None:
            return f"the folder {self.data}"
        from knowledge.store.postgres.postgres import parse_database_url

        url = parse_database_url(self.database_url)
        port = f":{url.port}" if url.port else ""
        return f"PostgreSQL {url.host or 'localhost'}{port}/{url.database}"


@dataclass(frozen=True, slots=True)
class OpenPlace:
    place: DataPlace
    database: Database
    originals: Blobs


def parse_target(to: str, originals: str | None, source: DataPlace) -> DataPlace:
    """Parse the options --to and --originals."""
    if to.startswith(FOLDER_PREFIX):
        path = to.removeprefix(FOLDER_PREFIX)
        if not path:
            raise InvalidParameter("--to folder: names no folder", hint="Write --to folder:PATH.", parameter="to")
        if originals:
            raise InvalidParameter(
                "--originals needs a PostgreSQL database: a folder keeps its originals itself",
                hint="Leave out --originals.",
                parameter="originals",
            )
        return DataPlace(Path(path).expanduser().absolute())
    if "://" not in to:
        raise InvalidParameter(
            f"--to {to[:80]} is neither a database URL nor folder:PATH",
            hint="Write --to postgresql+psycopg://USER:PASSWORD@HOST:PORT/DATABASE, or --to folder:PATH.",
            parameter="to",
        )
    from knowledge.store.postgres.postgres import parse_database_url

    parse_database_url(to)
    if originals and "://" in originals:
        parse_bucket_url(originals)
    elif originals:
        originals = str(Path(originals).expanduser().absolute())
    return DataPlace(source.data, to, originals or source.originals_location)


@contextmanager
def open_place(place: DataPlace) -> Iterator[OpenPlace]:
    """Open a place that no server uses, and keep servers away until the block ends."""
    with ExitStack() as stack:
        if place.database_url is None:
            stack.enter_context(hold_data_folder(place.data))
        database = open_database(place.data, place.database_url)
        stack.callback(database.close)
        if place.database_url is not None:
            stack.enter_context(hold_database(database, place.describe()))
        stack.enter_context(_keep_files_private())
        yield OpenPlace(place, database, open_originals(place, database, place.data))


def open_originals(place: DataPlace, database: Database, scratch: Path) -> Blobs:
    """Open the originals of a place that no server uses; those of a bucket need a folder for files on their way."""
    if place.is_bucket:
        return open_bucket(database, parse_bucket_url(place.originals), scratch, CACHE_BYTES)
    return FolderBlobs(Path(place.originals_location))


def open_originals_alone(place: DataPlace, database: Database, scratch: Path) -> Blobs:
    """Open the originals of a place to look at them, while its database may not exist; nothing may be stored."""
    if place.is_bucket:
        return make_bucket_blobs(database, parse_bucket_url(place.originals), scratch, CACHE_BYTES)
    return FolderBlobs(Path(place.originals_location))


@contextmanager
def open_scratch_originals(place: DataPlace, database: Database) -> Iterator[Blobs]:
    """Open an empty place beside the originals of a place, to measure its speed; it is deleted when the block ends."""
    near = Path(place.data if place.is_bucket else place.originals_location)
    parent = next(found for found in (near, *near.parents) if found.exists())
    with TemporaryDirectory(dir=parent, prefix=".knowledge-estimate-") as folder:
        if not place.is_bucket:
            yield FolderBlobs(Path(folder))
            return
        url = parse_bucket_url(place.originals)
        scratch = replace(url, prefix=f"{url.prefix}estimate-{secrets.token_hex(6)}/")
        blobs = make_bucket_blobs(database, scratch, Path(folder), CACHE_BYTES)
        try:
            yield blobs
        finally:
            blobs.delete_everything()


@contextmanager
def _keep_files_private() -> Iterator[None]:
    file_modes.UMASK.enter()
    try:
        yield
    finally:
        file_modes.UMASK.leave()


def require_source(place: DataPlace) -> None:
    """Raise NotNow if there is nothing to move."""
    if place.database_url is None and not (place.data / DATABASE_NAME).exists():
        raise NotNow(
            f"There is no data in the folder {place.data}", hint="Choose the folder with --data or KNOWLEDGE_DATA."
        )


def require_clear_folder(folder: Path) -> None:
    """Raise NotNow if a folder contains something else than an unfinished move."""
    found = sorted(path.name for path in folder.iterdir() if path.name not in ALLOWED_NAMES) if folder.exists() else []
    if found:
        raise NotNow(
            f"The folder {folder} is not empty: it contains {', '.join(found[:5])}", hint="Choose an empty folder."
        )
