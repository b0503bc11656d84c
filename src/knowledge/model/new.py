"""What comes in: documents on their way, and what is to change."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

from knowledge.model.documents import Kind
from knowledge.model.values import DEFAULT_COLLECTION, CollectionRef, Json, new_uid


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of a file on their way in, piece by piece, from the start each time `pieces` is asked for."""

    read: Callable[[], AsyncIterator[bytes]]

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        return self.read()

    @classmethod
    def of(cls, data: bytes) -> Content:
        async def once() -> AsyncIterator[bytes]:
            yield data

        return cls(once)

    @classmethod
    def from_path(cls, path: Path, size: int = 1 << 20) -> Content:
        async def read() -> AsyncIterator[bytes]:
            with path.open("rb") as file:
                while piece := file.read(size):
                    yield piece

        return cls(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    filename: str
    content: Content
    title: str | None = None
    collection: CollectionRef = DEFAULT_COLLECTION
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None
    kind: Kind = Kind.FILE
    """A page of a web site is a file that came from a URL."""
    force_ocr: bool = False
    job_uid: UUID = field(default_factory=new_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNote:
    text: str
    title: str | None = None
    collection: CollectionRef = DEFAULT_COLLECTION
    tags: tuple[str, ...] = ()
    metadata: Json = field(default_factory=dict)
    source_path: str | None = None
    url: str | None = None
    job_uid: UUID = field(default_factory=new_uid)


NewDocument: TypeAlias = NewFile | NewNote


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCollection:
    title: str
    name: str | None = None
    """Made from the title when it is not given."""
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Json = field(default_factory=dict)
    uid: UUID = field(default_factory=new_uid)
    """Made by the caller, so that to ask twice makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCorpus:
    title: str
    """What contract 001 calls display_name."""
    name: str | None = None
    """Made from the title when it is not given."""
    description: str = ""
    category: str = "general"
    version: str = ""
    is_public: bool = False
    uid: UUID = field(default_factory=new_uid)
    """Made by the caller, so that to ask twice makes one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentEdit:
    """What is to change; None leaves a thing as it is. Metadata is merged, and a null in it takes a key out."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = None
    """Where its file lies now; the name of the file goes along, and nothing is read again."""
    metadata: Json | None = None
    collection: CollectionRef | None = None
    leaving: str | None = None
    """Where it stands until now; an engine elsewhere is then told of the move by tags, the old out and the new in."""
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionEdit:
    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Json | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusEdit:
    """What is to change; None leaves a thing as it is."""

    title: str | None = None
    description: str | None = None
    category: str | None = None
    version: str | None = None
    is_public: bool | None = None
