"""The options that narrow a search."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from knowledge.engine.api import Engine
from knowledge.model import Filter
from knowledge.surfaces.cli.find_document import collection_ref, find_document

F = TypeVar("F", bound=Callable[..., Any])  # what click decorates


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A filter as it was typed."""

    collections: tuple[str, ...]
    tags: tuple[str, ...]
    types: tuple[str, ...]
    documents: tuple[str, ...]
    date_from: str | None
    date_to: str | None

    async def read(self, engine: Engine) -> Filter:
        from knowledge.wire.values import load_bound

        return Filter(
            collections=tuple(collection_ref(name) for name in self.collections),
            tags=self.tags,
            doc_types=tuple(kind.lower().removeprefix(".") for kind in self.types),
            documents=tuple([(await find_document(engine, document)).id for document in self.documents]),
            date_from=None if self.date_from is None else load_bound(self.date_from, "--from"),
            date_to=None if self.date_to is None else load_bound(self.date_to, "--to", end=True),
        )


OPTIONS = (
    click.option("--collection", "-c", "collections", multiple=True, metavar="NAME", help="Only in this collection."),
    click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="Only with this tag; with all of several."),
    click.option("--type", "types", multiple=True, metavar="TYPE", help="Only this type, such as pdf, md or note."),
    click.option("--document", "-d", "documents", multiple=True, metavar="DOC", help="Only in this document."),
    click.option("--from", "date_from", metavar="DATE", help="Only what was added on this day or later (UTC)."),
    click.option("--to", "date_to", metavar="DATE", help="Only what was added on this day or earlier (UTC)."),
)


def filter_options(function: F) -> Callable[..., Any]:
    """The command gets what they say as its argument `narrowing`."""

    @functools.wraps(function)
    def collected(*arguments: Any, **options: Any) -> Any:
        narrowing = Narrowing(**{name: options.pop(name) for name in Narrowing.__dataclass_fields__})
        return function(*arguments, narrowing=narrowing, **options)

    decorated: Callable[..., Any] = collected
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return decorated
