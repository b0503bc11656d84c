"""Parts of uploads as objects of the bucket of originals, so that any server can go on with them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import anyio.to_thread

from knowledge.errors import StorageFailed
from knowledge.model import Json
from knowledge.toolsets.shared_uploads import ANSWER_NAME, PART_SUFFIX, STATE_NAME, StagedFiles, is_uid, load_object

if TYPE_CHECKING:
    from knowledge.blobs.s3.bucket import Bucket  # needs the extra

FOLDER = "uploads/"
TOUCH_NAME = "touched"
MAX_KEPT_STATES = 10_000


class StagedObjects:
    """The objects of an upload have a common prefix; the newest of them tells the time of its last part."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._states: dict[UUID, Json] = {}
        """States that were read, which never change."""

    def write_part(self, upload: UUID, index: int, data: bytes) -> None:
        self._bucket.put_bytes(_make_key(upload, f"{index}{PART_SUFFIX}"), data)

    async def read_parts(self, upload: UUID, indexes: Sequence[int]) -> AsyncIterator[bytes]:
        try:
            for index in indexes:
                pieces = self._bucket.read(_make_key(upload, f"{index}{PART_SUFFIX}"))
                while piece := await anyio.to_thread.run_sync(next, pieces, b""):
                    yield piece
        except FileNotFoundError as error:
            raise StorageFailed("Cannot read a staged part", hint="Start again with kb_upload_start.") from error

    def write_json(self, uid: UUID, name: str, body: Json) -> None:
        self._bucket.put_bytes(_make_key(uid, name), json.dumps(body).encode())

    def read_json(self, uid: UUID, name: str) -> Json | None:
        if name == STATE_NAME and uid in self._states:
            return self._states[uid]
        data = self._bucket.read_bytes(_make_key(uid, name))
        found = None if data is None else load_object(data)
        if name == STATE_NAME and found is not None:
            if len(self._states) >= MAX_KEPT_STATES:
                self._states.clear()
            self._states[uid] = found
        return found

    def touch(self, uid: UUID, now: float) -> None:  # noqa: ARG002
        self._bucket.put_bytes(_make_key(uid, TOUCH_NAME), b"")

    def list_files(self, uid: UUID | None = None) -> dict[UUID, StagedFiles]:
        found: dict[UUID, StagedFiles] = {}
        stateful = set()
        now = time.time()
        for stored in self._bucket.iterate(FOLDER if uid is None else _make_key(uid, "")):
            name, _, file = stored.key.removeprefix(FOLDER).partition("/")
            if not is_uid(name):
                continue
            files = found.setdefault(UUID(name), StagedFiles())
            files.newest = max(files.newest, now - stored.age_seconds)
            if file == STATE_NAME:
                stateful.add(UUID(name))
            elif file == ANSWER_NAME:
                files.has_answer = True
            elif file.endswith(PART_SUFFIX) and file.removesuffix(PART_SUFFIX).isdecimal():
                files.parts[int(file.removesuffix(PART_SUFFIX))] = stored.size
        for each in stateful:
            found[each].touched = found[each].newest
        return found

    def remove_parts(self, uid: UUID) -> None:
        self._remove(uid, PART_SUFFIX)

    def remove_upload(self, upload: UUID) -> None:
        self._states.pop(upload, None)
        self._remove(upload, "")

    def _remove(self, uid: UUID, suffix: str) -> None:
        keys = [stored.key for stored in self._bucket.iterate(_make_key(uid, ""))]
        self._bucket.delete(*(key for key in keys if key.endswith(suffix)))

    def remove_abandoned(self) -> None:
        """Uploads of killed servers go on on others, or expire."""

    def close(self) -> None:
        """The objects belong to all servers."""


def _make_key(upload: UUID, name: str) -> str:
    return f"{FOLDER}{upload.hex}/{name}"
