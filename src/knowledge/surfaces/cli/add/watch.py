"""`knowledge add --watch`: keeps a collection in sync with folders."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeAlias

import click

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, DocumentNotFound, FileNotFound, NotNow
from knowledge.model import Document, DocumentEdit, DocumentFilter
from knowledge.surfaces.cli.add.document_options import DocumentOptions
from knowledge.surfaces.cli.add.file_selection import ALWAYS_IGNORED, FolderWalk, GatheredFiles
from knowledge.surfaces.cli.add.outcomes import AddOutcome, AddResults, AddStatus, dump_outcome, format_reason
from knowledge.surfaces.cli.add.uploader import PendingUpload, Uploader
from knowledge.surfaces.cli.document_lookup import absolute_path, iterate_documents
from knowledge.surfaces.cli.output.terminal import dump_dataclass, pluralize, print_message, sanitize_text
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from watchfiles import Change

    from knowledge.surfaces.cli.output.json_shapes import WatchShape

DEBOUNCE_MS = 300

FileStamp: TypeAlias = tuple[int, int]
"""Modification time in nanoseconds, and size in bytes."""


def watch_folders(session: CliSession, folders: Sequence[Path], walk: FolderWalk, options: DocumentOptions) -> None:
    roots = [Path(absolute_path(folder)) for folder in folders]
    kept: list[int] = []

    async def work(engine: Engine) -> None:
        await FolderWatch(engine, roots, walk, options, session.as_json, kept).run()

    with suppress(KeyboardInterrupt):  # the normal end
        session.run(work)
    print_message(f"Stopped watching. {pluralize(len(kept), 'document stays', 'documents stay')} in the collection.")


@dataclass(slots=True)
class FolderWatch:
    engine: Engine
    roots: list[Path]
    walk: FolderWalk
    options: DocumentOptions
    as_json: bool
    document_ids: list[int]
    """Ids of the documents from the folders; the caller reads it at the end."""
    stored_ids: dict[str, int] = field(default_factory=dict)
    handled_stamps: dict[str, FileStamp] = field(default_factory=dict)
    copies: set[str] = field(default_factory=set)
    """Files with the bytes of another document; they are added when that document is removed."""

    async def run(self) -> None:
        from watchfiles import awatch

        stop = asyncio.Event()
        with suppress(NotImplementedError):  # Windows event loops have no signal handlers
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        # Watching starts before the first scan, so that no change is missed.
        changes = awatch(*self.roots, stop_event=stop, debounce=DEBOUNCE_MS, watch_filter=self._is_relevant)
        coming = asyncio.ensure_future(anext(changes, None))
        await self._load_stored()
        while await coming is not None:
            coming = asyncio.ensure_future(anext(changes, None))
            await self.sync()

    async def _load_stored(self) -> None:
        wanted = DocumentFilter(collection=self.options.collection)
        with suppress(CollectionNotFound):
            async for document in iterate_documents(self.engine, wanted):
                if document.source_path and self._is_below(document.source_path):
                    self.stored_ids[document.source_path] = document.id
        if self.stored_ids and not self._scan():
            raise NotNow(
                f"The folder has no files, but {pluralize(len(self.stored_ids), 'document')} came from it",
                hint="Check that the folder is mounted; if it is empty on purpose, run 'knowledge remove' first.",
            )
        await self.sync()
        names = ", ".join(map(str, self.roots))
        print_message(f"Watching {names}: {pluralize(len(self.stored_ids), 'document')}. Press Ctrl-C to stop.")

    async def sync(self) -> None:
        """Apply renames, removals and additions until the collection matches the folders."""
        while work := plan_sync(self.handled_stamps, found := self._scan_reliably(), self.stored_ids):
            if await self._apply_renames(work, found):
                continue
            await self._apply_removals(work)
            await self._apply_additions(work, found)
        self.handled_stamps = {path: stamp for path, stamp in self.handled_stamps.items() if path in found}
        self.document_ids[:] = self.stored_ids.values()

    def _scan_reliably(self) -> dict[str, FileStamp]:
        """Scan the folders, and again if a stored file is missing.

        A file renamed during a scan can be missed under both names; the second scan starts after the rename.
        """
        found = self._scan()
        return found if self.stored_ids.keys() <= found.keys() else self._scan()

    def _scan(self) -> dict[str, FileStamp]:
        sources = GatheredFiles()
        for root in self.roots:
            if not root.is_dir():
                raise FileNotFound(
                    f"The watched folder {root} no longer exists",
                    hint="Its documents are kept; mount or create the folder and run the command again.",
                    file_path=str(root),
                )
            for path in self.walk.list_files(root):
                with suppress(FileNotFoundError):  # removed since it was listed
                    sources.add_if_readable(path)
        return {path: stamp for path in sources.files if (stamp := read_stamp(path)) is not None}

    async def _apply_renames(self, work: SyncPlan, found: dict[str, FileStamp]) -> bool:
        gone = {path: self.stored_ids[path] for path in work.remove}
        new = [path for path in (*work.add, *self.copies) if path in found and path not in self.stored_ids]
        moves = await detect_renames(self.engine, gone, new, found)
        for before, after in moves.items():
            number = self.stored_ids.pop(before)
            await self.engine.edit(number, DocumentEdit(source_path=after))
            self.stored_ids[after], self.handled_stamps[after] = number, found[after]
            self.copies.discard(after)
            self._print_event("renamed", AddOutcome(after, AddStatus.ADDED, document_id=number), before)
        return bool(moves)

    async def _apply_removals(self, work: SyncPlan) -> None:
        for path in work.remove:
            number = self.stored_ids.pop(path)
            with suppress(DocumentNotFound):
                await self.engine.remove(number)
            self.handled_stamps.pop(path, None)
            self._print_event("removed", AddOutcome(path, AddStatus.ADDED, document_id=number))
        if work.remove:
            self._forget_copies()

    async def _apply_additions(self, work: SyncPlan, found: dict[str, FileStamp]) -> None:
        replaced = any(path in self.stored_ids for path in work.add)
        uploads = [PendingUpload(path, partial(self.options.new_file_from_path, Path(path))) for path in work.add]
        await Uploader(self.engine, AddResults(), on_end=self._record_outcome).send_all(uploads)
        await self._separate_copies()
        self.handled_stamps.update((path, found[path]) for path in work.add)
        if replaced:  # a changed file no longer has the bytes of its copies
            self._forget_copies(excluded=work.add)

    async def _separate_copies(self) -> None:
        """Assign a document that several equal files share to one of them, and mark the others as copies."""
        paths: dict[int, list[str]] = {}
        for path, number in self.stored_ids.items():
            paths.setdefault(number, []).append(path)
        for number in [number for number, sharing in paths.items() if len(sharing) > 1]:
            owner = (await self.engine.document(number)).source_path
            for path in paths[number]:
                if path != owner:
                    del self.stored_ids[path]
                    self.copies.add(path)

    def _record_outcome(self, outcome: AddOutcome) -> None:
        if outcome.status is AddStatus.ADDED and outcome.document_id is not None:
            changed = outcome.name in self.stored_ids
            self.stored_ids[outcome.name] = outcome.document_id
            self.copies.discard(outcome.name)
            self._print_event("changed" if changed else "added", outcome)
        elif outcome.status is AddStatus.UNCHANGED and outcome.name not in self.stored_ids:
            self.copies.add(outcome.name)
        elif outcome.status is AddStatus.FAILED:
            self._print_event("failed", outcome)

    def _forget_copies(self, excluded: Collection[str] = ()) -> None:
        for path in self.copies.difference(excluded):
            self.handled_stamps.pop(path, None)
        self.copies.intersection_update(excluded)

    def _is_relevant(self, _: Change, path: str) -> bool:
        place = Path(path)
        return not ALWAYS_IGNORED.intersection(place.parts) and not any(map(place.is_relative_to, self.walk.private))

    def _is_below(self, path: str) -> bool:
        return any(Path(path).is_relative_to(root) for root in self.roots)

    def _print_event(self, event: str, outcome: AddOutcome, before: str | None = None) -> None:
        if self.as_json:
            shape: WatchShape = {"event": event, "before": before, **dump_outcome(outcome)}
            click.echo(json.dumps(shape, default=dump_dataclass))
        else:
            why = f": {format_reason(outcome)}" if outcome.error else f" (was {before})" if before else ""
            click.echo(sanitize_text(f"{event:8} {outcome.name}{why}"))
        sys.stdout.flush()


def read_stamp(path: str) -> FileStamp | None:
    try:
        facts = Path(path).stat()
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size


async def detect_renames(
    engine: Engine, removed: Mapping[str, int], new: Collection[str], found: Mapping[str, FileStamp]
) -> dict[str, str]:
    """Map each removed path to a new file with the same bytes and the same suffix, which sets the format."""
    moves: dict[str, str] = {}
    for path, number in removed.items() if new else ():
        try:
            document = await engine.document(number)
        except DocumentNotFound:
            continue
        free = [other for other in rank_candidates(path, new) if other not in moves.values()]
        target = await find_same_content(document, [other for other in free if found[other][1] == document.size_bytes])
        if target is not None:
            moves[path] = target
    return moves


def rank_candidates(path: str, new: Collection[str]) -> list[str]:
    """Return the new paths with the same suffix, those with the same filename first."""
    name = PurePath(path)
    same = [other for other in new if PurePath(other).suffix.lower() == name.suffix.lower()]
    return sorted(same, key=lambda other: (PurePath(other).name != name.name, other))


async def find_same_content(document: Document, paths: list[str]) -> str | None:
    for path in paths:
        if await asyncio.to_thread(hash_file, Path(path)) == document.sha256:
            return path
    return None


def hash_file(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # removed meanwhile; the next scan handles it
        return None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    remove: tuple[str, ...]
    add: tuple[str, ...]
    """New and changed files."""

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)


def plan_sync(handled: Mapping[str, FileStamp], found: Mapping[str, FileStamp], stored: Iterable[str]) -> SyncPlan:
    """Plan to remove documents without a file, and to add files that are new or changed.

    Removals are applied first: a renamed file has the bytes of the removed one and would be refused as a duplicate.
    """
    gone = tuple(sorted(path for path in stored if path not in found))
    return SyncPlan(gone, tuple(path for path, stamp in found.items() if handled.get(path) != stamp))
