"""Changes on their way in: to documents, notes, tags and collections, and the same from the edits."""

from __future__ import annotations

from uuid import UUID

from pydantic import Field, JsonValue

from knowledge.errors import Invalid, MissingParameter
from knowledge.model import CollectionEdit, CollectionRef, DocumentEdit, Json, NewCollection, new_uid
from knowledge.wire.adding import Metadata
from knowledge.wire.search import Body, Reference
from knowledge.wire.values import dump_collection_ref, load_collection_ref, one_collection, part_tags, with_collection


class NoteBody(Body):
    text: str = Field(description="The note's new text.")


class DocumentEditBody(Body):
    """What is not given stays as it is."""

    title: str | None = None
    url: str | None = None
    source_path: str | None = Field(None, min_length=1, description="Where its file lies now; nothing is read again.")
    metadata: Metadata | None = Field(None, description="Merged; a null takes a key out.")
    collection: Reference | None = Field(None, description="Moves the document.")
    add_tags: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove_tags: list[str] = Field([])

    def to_edit(self) -> DocumentEdit:
        add, tagged = part_tags(self.add_tags)
        remove, left = part_tags(self.remove_tags)
        if left:
            raise Invalid("A document cannot be without a collection", hint="Name the new one as collection.")
        named = None if self.collection is None else load_collection_ref(self.collection)
        return DocumentEdit(
            title=self.title,
            url=self.url,
            source_path=self.source_path,
            metadata=self.metadata,
            collection=one_collection(named, tagged),
            add_tags=add,
            remove_tags=remove,
        )


class TagsBody(Body):
    add: list[str] = Field([], description="`collection:NAME` moves the document.")
    remove: list[str] = Field([], description="Its own `collection:NAME` moves it to the default collection.")

    def moves_to(self) -> CollectionRef | None:
        return one_collection(None, part_tags(self.add)[1])

    def leaves(self) -> tuple[str, ...]:
        return part_tags(self.remove)[1]

    def to_edit(self, collection: CollectionRef | None) -> DocumentEdit:
        add, remove = part_tags(self.add)[0], part_tags(self.remove)[0]
        return DocumentEdit(add_tags=add, remove_tags=remove, collection=collection)


class NewCollectionBody(Body):
    title: str | None = Field(None, description="Free text; the name is made from it when that is not given.")
    name: str | None = None
    description: str = ""
    source_type: str = "upload"
    url: str | None = None
    metadata: Metadata = Field({})
    uid: UUID | None = Field(None, description="Made by the caller, so that to ask twice makes one collection.")

    def to_new(self) -> NewCollection:
        title = self.name if self.title is None else self.title
        if title is None:
            raise MissingParameter("A collection needs a title", parameter="title")
        return NewCollection(
            title=title,
            name=self.name,
            description=self.description,
            source_type=self.source_type,
            url=self.url,
            metadata=self.metadata,
            uid=self.uid or new_uid(),
        )


class CollectionEditBody(Body):
    """What is not given stays as it is."""

    title: str | None = None
    description: str | None = None
    url: str | None = None
    source_type: str | None = None
    metadata: Metadata | None = Field(None, description="Merged; a null takes a key out.")

    def to_edit(self) -> CollectionEdit:
        return CollectionEdit(
            title=self.title,
            description=self.description,
            url=self.url,
            source_type=self.source_type,
            metadata=self.metadata,
        )


def dump_document_edit(edit: DocumentEdit) -> Json:
    fields: dict[str, JsonValue] = {
        "title": edit.title,
        "url": edit.url,
        "source_path": edit.source_path,
        "metadata": edit.metadata,
        "collection": None if edit.collection is None else dump_collection_ref(edit.collection),
        "add_tags": list(edit.add_tags),
        "remove_tags": list(edit.remove_tags),
    }
    return _given(fields)


def dump_move(edit: DocumentEdit) -> Json | None:
    """The tags of an edit that only moves and tags, the old collection's out and the new one's in; None for others."""
    if edit.leaving is None or not isinstance(edit.collection, str):
        return None
    if any(value is not None for value in (edit.title, edit.url, edit.source_path, edit.metadata)):
        return None
    return {
        "remove": [*with_collection(edit.remove_tags, edit.leaving)],
        "add": [*with_collection(edit.add_tags, edit.collection)],
    }


def dump_new_collection(new: NewCollection) -> Json:
    return {
        "title": new.title,
        "name": new.name,
        "description": new.description,
        "source_type": new.source_type,
        "url": new.url,
        "metadata": new.metadata,
        "uid": str(new.uid),
    }


def dump_collection_edit(edit: CollectionEdit) -> Json:
    return _given(
        {
            "title": edit.title,
            "description": edit.description,
            "url": edit.url,
            "source_type": edit.source_type,
            "metadata": edit.metadata,
        }
    )


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
