"""`knowledge add --watch`: plans and makes the changes that keep a collection in sync with folders."""

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
"""When a file was changed, in nanoseconds, and its size."""


def watch_folders(session: CliSession, folders: Sequence[Path], walk: FolderWalk, options: DocumentOptions) -> None:
    roots = [Path(absolute_path(folder)) for folder in folders]
    kept: list[int] = []

    async def work(engine: Engine) -> None:
        await FolderWatch(engine, roots, walk, options, session.as_json, kept).run()

    with suppress(KeyboardInterrupt):  # the way to end it
        session.run(work)
    print_message(f"Stopped watching. {pluralize(len(kept), 'document is', 'documents are')} kept.")


@dataclass(slots=True)
class FolderWatch:
    engine: Engine
    roots: list[Path]
    walk: FolderWalk
    options: DocumentOptions
    as_json: bool
    document_ids: list[int]
    """The numbers of the documents that stand for the folders now; the caller reads it when all is over."""
    stored_ids: dict[str, int] = field(default_factory=dict)
    handled_stamps: dict[str, FileStamp] = field(default_factory=dict)
    copies: set[str] = field(default_factory=set)
    """Files whose bytes another document already has; they come when that one goes."""

    async def run(self) -> None:
        from watchfiles import awatch

        stop = asyncio.Event()
        with suppress(NotImplementedError):  # Windows has no such signals for loops
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        # The watch begins before the first look, so nothing that happens meanwhile is missed.
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
                "There is no file in the folder any more, "
                f"but {pluralize(len(self.stored_ids), 'document')} came from it",
                hint="If that is right, remove them with 'knowledge remove'; else check that the folder is mounted.",
            )
        await self.sync()
        names = ", ".join(map(str, self.roots))
        print_message(f"Watching {names}: {pluralize(len(self.stored_ids), 'document')}. Ctrl-C stops.")

    async def sync(self) -> None:
        """Look, follow what has another name, remove what is gone, add what is new; again if that made room."""
        while work := plan_sync(self.handled_stamps, found := self._scan_reliably(), self.stored_ids):
            if await self._apply_renames(work, found):
                continue
            await self._apply_removals(work)
            await self._apply_additions(work, found)
        self.handled_stamps = {path: stamp for path, stamp in self.handled_stamps.items() if path in found}
        self.document_ids[:] = self.stored_ids.values()

    def _scan_reliably(self) -> dict[str, FileStamp]:
        """A file renamed while a folder is listed may be seen under neither name: what is missing is looked for twice.

        The second look begins after the rename has happened, so it sees the new name.
        """
        found = self._scan()
        return found if self.stored_ids.keys() <= found.keys() else self._scan()

    def _scan(self) -> dict[str, FileStamp]:
        sources = GatheredFiles()
        for root in self.roots:
            if not root.is_dir():
                raise FileNotFound(f"The folder {root} is gone", hint="Its documents are kept.", file_path=str(root))
            for path in self.walk.list_files(root):
                with suppress(FileNotFoundError):  # gone between being listed and being looked at
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
        parcels = [PendingUpload(path, partial(self.options.new_file_from_path, Path(path))) for path in work.add]
        await Uploader(self.engine, AddResults(), on_end=self._record_outcome).send_all(parcels)
        await self._separate_copies()
        self.handled_stamps.update((path, found[path]) for path in work.add)
        if replaced:  # what has changed no longer has the bytes of its copies
            self._forget_copies(excluded=work.add)

    async def _separate_copies(self) -> None:
        """Two files with the same bytes that came at once are one document, which belongs to one of them."""
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
    """Each path that is gone, and where its bytes are now; a suffix says how a file is read, so it must be the same."""
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
    """Those with its suffix; the same name in another folder comes first."""
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
    except OSError:  # it went while we looked; the next look will tell
        return None


@dataclass(frozen=True, slots=True)
class SyncPlan:
    remove: tuple[str, ...]
    add: tuple[str, ...]
    """New or changed."""

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)


def plan_sync(handled: Mapping[str, FileStamp], found: Mapping[str, FileStamp], stored: Iterable[str]) -> SyncPlan:
    """Documents whose file is gone go; files that were not handled as they are now come.

    Removals come first: a renamed file has the bytes of the one that is gone, and would be refused beside it.
    """
    gone = tuple(sorted(path for path in stored if path not in found))
    return SyncPlan(gone, tuple(path for path, stamp in found.items() if handled.get(path) != stamp))
