"""JSON of collections and corpora: lists, creation, edits and grants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from pydantic import Field

from knowledge.errors import InvalidCorpusId, MissingParameter
from knowledge.model import (
    Collection,
    CollectionEdit,
    CorpusEdit,
    Curation,
    Grant,
    Json,
    NewCollection,
    NewCorpus,
    Permission,
    ResultPage,
    new_uid,
)
from knowledge.wire.requests import Body, BodyUuid, Listing, Metadata
from knowledge.wire.values import MAX_ID

_NUMBER = re.compile(r"[0-9]{1,19}")
MAX_REASON_CHARS = 500

_SHARED_FIELDS = (
    *("id", "uid", "name", "description", "document_count", "chunk_count"),
    *("source_type", "url", "metadata", "created_at", "updated_at", "trusted"),
)
"""Fields with the same name in CorpusShape and Collection."""


class CorpusListing(Listing):
    category: str | None = Field(None, description="legal, medical, research, general or technical.")
    approved_only: bool = False


class NewCorpusBody(Body):
    name: str | None = Field(None, description="Unique name; derived from the display name if omitted.")
    display_name: str | None = Field(None, description="Free text; defaults to the name.")
    description: str = ""
    category: str = Field("general", description="legal, medical, research, general or technical.")
    version: str = ""
    is_public: bool = Field(False, description="Readable by everyone after an admin has approved it.")
    uid: BodyUuid | None = Field(None, description="Idempotency key: a repeated request creates one corpus.")

    def to_new(self) -> NewCorpus:
        title = self.name if self.display_name is None else self.display_name
        if title is None or not title.strip():
            raise MissingParameter("'name' or 'display_name' is required", parameter="name")
        return NewCorpus(
            title=title,
            name=self.name,
            description=self.description,
            category=self.category,
            version=self.version,
            is_public=self.is_public,
            uid=self.uid or new_uid(),
        )


class CorpusEditBody(Body):
    """Omitted fields are not changed."""

    display_name: str | None = None
    description: str | None = None
    category: str | None = Field(None, description="legal, medical, research, general or technical.")
    version: str | None = None
    is_public: bool | None = None

    def to_edit(self) -> CorpusEdit:
        return CorpusEdit(
            title=self.display_name,
            description=self.description,
            category=self.category,
            version=self.version,
            is_public=self.is_public,
        )


class DeclineBody(Body):
    reason: str = Field("", max_length=MAX_REASON_CHARS, description="Shown to the owner of the corpus.")


class GrantBody(Body):
    username: str
    permission: Permission = Field(Permission.READ, strict=False, description="read or write.")


def load_corpus_id(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= MAX_ID:
        raise InvalidCorpusId(f"'{text[:40]}' is not a corpus number", parameter="corpus_id")
    return int(text)


@dataclass(frozen=True)
class CorpusShape:
    """A curated collection with the field names of contract 001."""

    id: int
    uid: UUID
    name: str
    display_name: str
    description: str
    category: str
    version: str
    is_public: bool
    is_approved: bool
    owner: str
    owner_id: int
    document_count: int
    chunk_count: int
    source_type: str
    url: str | None
    metadata: Json
    created_at: datetime
    updated_at: datetime
    trusted: bool = False
    declined: str | None = None
    """Why an admin has declined to approve it; null if nobody has."""

    @classmethod
    def from_collection(cls, corpus: Collection) -> CorpusShape:
        curation = corpus.curation or Curation("general")
        return cls(
            display_name=corpus.title,
            category=curation.category,
            version=curation.version,
            is_public=curation.is_public,
            is_approved=curation.is_approved,
            owner=curation.owner_name,
            owner_id=corpus.owner,
            declined=curation.declined,
            **{name: getattr(corpus, name) for name in _SHARED_FIELDS},
        )

    def to_collection(self) -> Collection:
        return Collection(
            title=self.display_name,
            owner=self.owner_id,
            curation=Curation(self.category, self.version, self.is_public, self.is_approved, self.owner, self.declined),
            **{name: getattr(self, name) for name in _SHARED_FIELDS},
        )


@dataclass(frozen=True)
class CorpusesShape:
    """A page of corpora."""

    corpuses: tuple[CorpusShape, ...]
    total: int
    page: int
    per_page: int

    @classmethod
    def from_page(cls, page: ResultPage[Collection]) -> CorpusesShape:
        items = tuple(CorpusShape.from_collection(corpus) for corpus in page.items)
        return cls(items, page.total, page.page, page.per_page)

    def to_page(self) -> ResultPage[Collection]:
        items = tuple(corpus.to_collection() for corpus in self.corpuses)
        return ResultPage(items, self.total, self.page, self.per_page)


@dataclass(frozen=True)
class PermissionsShape:
    """The accounts that may access a corpus."""

    permissions: tuple[Grant, ...]


def dump_new_corpus(new: NewCorpus) -> Json:
    return {
        "name": new.name,
        "display_name": new.title,
        "description": new.description,
        "category": new.category,
        "version": new.version,
        "is_public": new.is_public,
        "uid": str(new.uid),
    }


def dump_corpus_edit(edit: CorpusEdit) -> Json:
    fields: Json = {
        "display_name": edit.title,
        "description": edit.description,
        "category": edit.category,
        "version": edit.version,
        "is_public": edit.is_public,
    }
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True)
class CollectionsShape:
    """A page of collections."""

    collections: tuple[Collection, ...]
    total: int
    page: int
    per_page: int

    @classmethod
    def from_page(cls, page: ResultPage[Collection]) -> CollectionsShape:
        return cls(page.items, page.total, page.page, page.per_page)

    def to_page(self) -> ResultPage[Collection]:
        return ResultPage(self.collections, self.total, self.page, self.per_page)


class NewCollectionBody(Body):
    title: str | None = Field(None, description="Free text; the name is derived from it if omitted.")
    name: str | None = None
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Metadata = Field({})
    uid: BodyUuid | None = Field(None, description="Idempotency key: a repeated request creates one collection.")

    def to_new(self) -> NewCollection:
        title = self.name if self.title is None else self.title
        if title is None:
            raise MissingParameter("'title' or 'name' is required", parameter="title")
        return NewCollection(**{**dict(self), "title": title, "uid": self.uid or new_uid()})


class CollectionEditBody(Body):
    """Omitted fields are not changed."""

    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Metadata | None = Field(None, description="Merged with the existing metadata; null removes a key.")
    trusted: bool | None = Field(None, description="Whether searches with trusted_only include it.")

    def to_edit(self) -> CollectionEdit:
        return CollectionEdit(**dict(self))
