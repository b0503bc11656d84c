"""`knowledge add --watch`: keeps folders and a collection the same, until Ctrl-C or a request to end."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.errors import CollectionNotFound, DocumentNotFound, FileNotFound, NotNow
from knowledge.model import DocumentEdit, DocumentFilter
from knowledge.surfaces.cli.add.detect_renames import renamed
from knowledge.surfaces.cli.add.document_options import About
from knowledge.surfaces.cli.add.gather_files import Sources, Walk
from knowledge.surfaces.cli.add.gitignore import NEVER
from knowledge.surfaces.cli.add.outcomes import Fate, Outcome, Tally
from knowledge.surfaces.cli.add.summary import dump_outcome, reason
from knowledge.surfaces.cli.add.sync_plan import Plan, Stamp, plan
from knowledge.surfaces.cli.add.uploader import Parcel, Upload
from knowledge.surfaces.cli.find_document import absolute, every_document
from knowledge.surfaces.cli.output.screen import clean, count, say
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from watchfiles import Change

    from knowledge.surfaces.cli.output.json_shapes import WatchShape

DEBOUNCE_MS = 300


def watch_folders(session: Session, folders: Sequence[Path], walk: Walk, chosen: About) -> None:
    roots = [Path(absolute(folder)) for folder in folders]
    kept: list[int] = []

    async def work(engine: Engine) -> None:
        await Watch(engine, roots, walk, chosen, session.as_json, kept).run()

    with suppress(KeyboardInterrupt):  # the way to end it
        session.run(work)
    say(f"Stopped watching. {count(len(kept), 'document is', 'documents are')} kept.")


@dataclass(slots=True)
class Watch:
    engine: Engine
    roots: list[Path]
    walk: Walk
    chosen: About
    as_json: bool
    kept: list[int]
    """The numbers of the documents that stand for the folders now; the caller reads it when all is over."""
    stored: dict[str, int] = field(default_factory=dict)
    handled: dict[str, Stamp] = field(default_factory=dict)
    copies: set[str] = field(default_factory=set)
    """Files whose bytes another document already has; they come when that one goes."""

    async def run(self) -> None:
        from watchfiles import awatch

        stop = asyncio.Event()
        with suppress(NotImplementedError):  # Windows has no such signals for loops
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        # The watch begins before the first look, so nothing that happens meanwhile is missed.
        changes = awatch(*self.roots, stop_event=stop, debounce=DEBOUNCE_MS, watch_filter=self._concerns_us)
        coming = asyncio.ensure_future(anext(changes, None))
        await self._begin()
        while await coming is not None:
            coming = asyncio.ensure_future(anext(changes, None))
            await self.bring_up_to_date()

    async def _begin(self) -> None:
        wanted = DocumentFilter(collection=self.chosen.collection)
        with suppress(CollectionNotFound):
            async for document in every_document(self.engine, wanted):
                if document.source_path and self._is_below(document.source_path):
                    self.stored[document.source_path] = document.id
        if self.stored and not self._look():
            raise NotNow(
                f"There is no file in the folder any more, but {count(len(self.stored), 'document')} came from it",
                hint="If that is right, remove them with 'knowledge remove'; else check that the folder is mounted.",
            )
        await self.bring_up_to_date()
        names = ", ".join(map(str, self.roots))
        say(f"Watching {names}: {count(len(self.stored), 'document')}. Ctrl-C stops.")

    async def bring_up_to_date(self) -> None:
        """Look, follow what has another name, remove what is gone, add what is new; again if that made room."""
        while work := plan(self.handled, found := self._sure_look(), self.stored):
            if await self._rename(work, found):
                continue
            await self._remove(work)
            await self._add(work, found)
        self.handled = {path: stamp for path, stamp in self.handled.items() if path in found}
        self.kept[:] = self.stored.values()

    def _sure_look(self) -> dict[str, Stamp]:
        """A file renamed while a folder is listed may be seen under neither name: what is missing is looked for twice.

        The second look begins after the rename has happened, so it sees the new name.
        """
        found = self._look()
        return found if self.stored.keys() <= found.keys() else self._look()

    def _look(self) -> dict[str, Stamp]:
        sources = Sources()
        for root in self.roots:
            if not root.is_dir():
                raise FileNotFound(f"The folder {root} is gone", hint="Its documents are kept.", file_path=str(root))
            for path in self.walk.files(root):
                with suppress(FileNotFoundError):  # gone between being listed and being looked at
                    sources.consider(path)
        return {path: stamp for path in sources.files if (stamp := stamp_of(path)) is not None}

    async def _rename(self, work: Plan, found: dict[str, Stamp]) -> bool:
        gone = {path: self.stored[path] for path in work.remove}
        new = [path for path in (*work.add, *self.copies) if path in found and path not in self.stored]
        moves = await renamed(self.engine, gone, new, found)
        for before, after in moves.items():
            number = self.stored.pop(before)
            await self.engine.edit(number, DocumentEdit(source_path=after))
            self.stored[after], self.handled[after] = number, found[after]
            self.copies.discard(after)
            self._tell("renamed", Outcome(after, Fate.ADDED, document_id=number), before)
        return bool(moves)

    async def _remove(self, work: Plan) -> None:
        for path in work.remove:
            number = self.stored.pop(path)
            with suppress(DocumentNotFound):
                await self.engine.remove(number)
            self.handled.pop(path, None)
            self._tell("removed", Outcome(path, Fate.ADDED, document_id=number))
        if work.remove:
            self._forget_copies()

    async def _add(self, work: Plan, found: dict[str, Stamp]) -> None:
        replaced = any(path in self.stored for path in work.add)
        parcels = [Parcel(path, partial(self.chosen.file, Path(path))) for path in work.add]
        await Upload(self.engine, Tally(), on_end=self._ended).send(parcels)
        await self._part_copies()
        self.handled.update((path, found[path]) for path in work.add)
        if replaced:  # what has changed no longer has the bytes of its copies
            self._forget_copies(but=work.add)

    async def _part_copies(self) -> None:
        """Two files with the same bytes that came at once are one document, which belongs to one of them."""
        paths: dict[int, list[str]] = {}
        for path, number in self.stored.items():
            paths.setdefault(number, []).append(path)
        for number in [number for number, sharing in paths.items() if len(sharing) > 1]:
            owner = (await self.engine.document(number)).source_path
            for path in paths[number]:
                if path != owner:
                    del self.stored[path]
                    self.copies.add(path)

    def _ended(self, outcome: Outcome) -> None:
        if outcome.fate is Fate.ADDED and outcome.document_id is not None:
            changed = outcome.name in self.stored
            self.stored[outcome.name] = outcome.document_id
            self.copies.discard(outcome.name)
            self._tell("changed" if changed else "added", outcome)
        elif outcome.fate is Fate.UNCHANGED and outcome.name not in self.stored:
            self.copies.add(outcome.name)
        elif outcome.fate is Fate.FAILED:
            self._tell("failed", outcome)

    def _forget_copies(self, but: Collection[str] = ()) -> None:
        for path in self.copies.difference(but):
            self.handled.pop(path, None)
        self.copies.intersection_update(but)

    def _concerns_us(self, _: Change, path: str) -> bool:
        place = Path(path)
        return not NEVER.intersection(place.parts) and not any(map(place.is_relative_to, self.walk.private))

    def _is_below(self, path: str) -> bool:
        return any(Path(path).is_relative_to(root) for root in self.roots)

    def _tell(self, event: str, outcome: Outcome, before: str | None = None) -> None:
        if self.as_json:
            shape: WatchShape = {"event": event, "before": before, **dump_outcome(outcome)}
            click.echo(json.dumps(shape))
        else:
            why = f": {reason(outcome)}" if outcome.error else f" (was {before})" if before else ""
            click.echo(clean(f"{event:8} {outcome.name}{why}"))
        sys.stdout.flush()


def stamp_of(path: str) -> Stamp | None:
    try:
        facts = Path(path).stat()
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_size
