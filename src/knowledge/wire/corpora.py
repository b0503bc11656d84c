"""Corpora, as contract 001 calls their parts, and whom their owners let in."""

from __future__ import annotations

import re
from uuid import UUID

from pydantic import Field

from knowledge.errors import InvalidCorpusId, MissingParameter
from knowledge.model import (
    Collection,
    CorpusEdit,
    Curation,
    Grant,
    Json,
    NewCorpus,
    Page,
    Permission,
    new_uid,
)
from knowledge.wire.requests import Listing
from knowledge.wire.search import Body
from knowledge.wire.shapes import CorpusesShape, CorpusShape, PermissionsShape
from knowledge.wire.values import LARGEST_ID, dump_moment, load_moment

_NUMBER = re.compile(r"[0-9]{1,19}")


class CorpusListing(Listing):
    category: str | None = Field(None, description="legal, medical, research, general or technical.")
    approved_only: bool = False


class NewCorpusBody(Body):
    name: str | None = Field(None, description="How it is called; made from the display name when it is not given.")
    display_name: str | None = Field(None, description="Free text; the name when it is not given.")
    description: str = ""
    category: str = Field("general", description="legal, medical, research, general or technical.")
    version: str = ""
    is_public: bool = Field(False, description="Readable by everybody, once an admin has approved it.")
    uid: UUID | None = Field(None, description="Made by the caller, so that to ask twice makes one corpus.")

    def to_new(self) -> NewCorpus:
        title = self.name if self.display_name is None else self.display_name
        if title is None or not title.strip():
            raise MissingParameter("A corpus needs a name", parameter="name")
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
    """What is not given stays as it is."""

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


class GrantBody(Body):
    username: str
    permission: Permission = Field(Permission.READ, strict=False, description="read or write.")


def load_corpus_id(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) <= LARGEST_ID:
        raise InvalidCorpusId(f"'{text[:40]}' is not the number of a corpus", parameter="corpus_id")
    return int(text)


def dump_corpus(corpus: Collection) -> CorpusShape:
    curation = corpus.curation or Curation("general")
    return {
        "id": corpus.id,
        "uid": str(corpus.uid),
        "name": corpus.name,
        "display_name": corpus.title,
        "description": corpus.description,
        "category": curation.category,
        "version": curation.version,
        "is_public": curation.is_public,
        "is_approved": curation.is_approved,
        "owner": curation.owner_name,
        "owner_id": corpus.owner,
        "document_count": corpus.document_count,
        "chunk_count": corpus.chunk_count,
        "source_type": corpus.source_type,
        "url": corpus.url,
        "metadata": corpus.metadata,
        "created_at": dump_moment(corpus.created_at),
        "updated_at": dump_moment(corpus.updated_at),
    }


def load_corpus(data: CorpusShape) -> Collection:
    return Collection(
        id=data["id"],
        uid=UUID(data["uid"]),
        name=data["name"],
        title=data["display_name"],
        owner=data["owner_id"],
        description=data["description"],
        source_type=data["source_type"],
        url=data["url"],
        metadata=data["metadata"],
        document_count=data["document_count"],
        chunk_count=data["chunk_count"],
        created_at=load_moment(data["created_at"]),
        updated_at=load_moment(data["updated_at"]),
        curation=Curation(data["category"], data["version"], data["is_public"], data["is_approved"], data["owner"]),
    )


def dump_corpora(page: Page[Collection]) -> CorpusesShape:
    return {
        "corpuses": [dump_corpus(corpus) for corpus in page.items],
        "total": page.total,
        "page": page.page,
        "per_page": page.per_page,
    }


def load_corpora(data: CorpusesShape) -> Page[Collection]:
    items = tuple(load_corpus(corpus) for corpus in data["corpuses"])
    return Page(items, data["total"], data["page"], data["per_page"])


def dump_grants(grants: list[Grant]) -> PermissionsShape:
    return {"permissions": [{"username": each.username, "permission": each.permission.value} for each in grants]}


def load_grants(data: PermissionsShape) -> list[Grant]:
    return [Grant(each["username"], Permission(each["permission"])) for each in data["permissions"]]


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
