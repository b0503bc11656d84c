"""The options --collection, --tag, --title and --metadata of `add` and `note`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from knowledge.model import DEFAULT_COLLECTION, CollectionRef, Content, Json, NewFile, NewNote
from knowledge.surfaces.cli.document_lookup import absolute_path, parse_collection_ref

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """Options that apply to every document of one command."""

    collection: CollectionRef = DEFAULT_COLLECTION
    tags: tuple[str, ...] = ()
    title: str | None = None
    metadata: Json = field(default_factory=dict)
    force_ocr: bool = False

    def new_file_from_path(self, path: Path) -> NewFile:
        """Describe a local file; stores its path, so that adding it again replaces the document."""
        if not path.is_file():
            raise FileNotFoundError(2, "Not a regular file", str(path))
        return self.new_file(path.name, Content.from_path(path), source_path=absolute_path(path))

    def new_file(self, name: str, content: Content, source_path: str | None = None) -> NewFile:
        return NewFile(
            filename=name,
            content=content,
            title=self.title,
            collection=self.collection,
            tags=self.tags,
            metadata=self.metadata,
            source_path=source_path,
            force_ocr=self.force_ocr,
        )

    def new_note(self, text: str) -> NewNote:
        return NewNote(text=text, title=self.title, collection=self.collection, tags=self.tags, metadata=self.metadata)


DOCUMENT_OPTIONS = (
    click.option("--collection", "-c", metavar="NAME", help="Collection; created if it is new.  [default: documents]"),
    click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help="Tag; can be repeated."),
    click.option("--title", metavar="TEXT", help="Title, instead of the one in the file."),
    click.option("--metadata", "-m", multiple=True, metavar="KEY=VALUE", help="Metadata; or a JSON object."),
)


def with_document_options(function: F) -> Callable[..., Any]:
    """Add the document options to a command and pass them as its argument `about`."""

    @functools.wraps(function)
    def call_with_options(
        *arguments: Any, collection: str | None, tags: Sequence[str], title: str | None, metadata: Sequence[str],
        **options: Any,
    ) -> Any:  # fmt: skip
        about = DocumentOptions(
            collection=DEFAULT_COLLECTION if collection is None else parse_collection_ref(collection),
            tags=tuple(dict.fromkeys(tag.strip() for given in tags for tag in given.split(",") if tag.strip())),
            title=title,
            metadata=parse_metadata(metadata),
        )
        return function(*arguments, about=about, **options)

    decorated: Callable[..., Any] = call_with_options
    for option in reversed(DOCUMENT_OPTIONS):
        decorated = option(decorated)
    return decorated


def parse_metadata(given: Sequence[str]) -> Json:
    facts: Json = {}
    for text in given:
        facts.update(_parse_object(text) if text.lstrip().startswith("{") else _parse_pair(text))
    return facts


def _parse_object(text: str) -> Json:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not valid JSON.", param_hint="--metadata") from error
    return dict(value)


def _parse_pair(text: str) -> Json:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--metadata")
    return {key.strip(): value}
