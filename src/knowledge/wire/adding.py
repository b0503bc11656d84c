"""A document on its way in: the fields of POST /jobs, as JSON or as a form, and the same from a NewDocument."""

from __future__ import annotations

import json
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field, JsonValue

from knowledge.errors import InvalidParameter
from knowledge.model import DEFAULT_COLLECTION, Content, Json, Kind, NewFile, NewNote, new_uid
from knowledge.wire.search import Body, Reference
from knowledge.wire.values import carried, load_collection_ref, one_collection, part_tags


def writable(value: object) -> object:
    """Metadata that can be written down as JSON again; a number without end or half a surrogate pair cannot."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError("holds a value that JSON cannot carry") from error
    return value


Metadata = Annotated[dict[str, JsonValue], BeforeValidator(writable)]


class AddBody(Body):
    note: str = Field(description="The text of the note.")
    title: str | None = Field(None, description="Made from the text when it is not given.")
    tags: list[str] = Field([], description="Free labels; `collection:NAME` names the collection.")
    collection: Reference | None = Field(None, description="A collection by name, number or UUID.")
    metadata: Metadata = Field({}, description="Whatever should be kept beside the document.")
    force_ocr: bool = Field(False, description="Read the pages as pictures even where they hold text.")
    source_path: str | None = Field(None, description="Where it came from; the same path again replaces it.")
    url: str | None = Field(None, description="Its address on the web.")
    job_uid: UUID | None = Field(None, description="Makes it safe to send the same request twice.")

    def to_note(self) -> NewNote:
        tags, tagged = part_tags(self.tags)
        named = None if self.collection is None else load_collection_ref(self.collection)
        collection = one_collection(named, tagged)
        return NewNote(
            text=self.note,
            title=self.title,
            collection=DEFAULT_COLLECTION if collection is None else collection,
            tags=tags,
            metadata=self.metadata,
            source_path=self.source_path,
            url=self.url,
            job_uid=self.job_uid or new_uid(),
        )


class FileFields(AddBody):
    """What a form says beside its file."""

    note: str = ""
    filename: str | None = Field(None, description="Instead of the name that the file was sent with.")
    kind: Literal["file", "page"] = Field("file", description="file, or page for one that came from the web.")

    def going_into(self, collection: int) -> FileFields:
        """The same for one collection; a form that names another contradicts itself."""
        if self.collection is not None or part_tags(self.tags)[1]:
            raise InvalidParameter("The address names the collection", parameter="collection")
        return self.model_copy(update={"collection": collection})

    def to_file(self, filename: str, content: Content) -> NewFile:
        shared = self.to_note()
        return NewFile(
            filename=filename,
            content=content,
            title=shared.title,
            collection=shared.collection,
            tags=shared.tags,
            metadata=shared.metadata,
            source_path=shared.source_path,
            url=shared.url,
            kind=Kind(self.kind),
            force_ocr=self.force_ocr,
            job_uid=shared.job_uid,
        )


def dump_note(new: NewNote) -> Json:
    tags, collection = carried(new.tags, new.collection)
    return {
        "note": new.text,
        "title": new.title,
        "tags": [*tags],
        "collection": collection,
        "metadata": new.metadata,
        "source_path": new.source_path,
        "url": new.url,
        "job_uid": str(new.job_uid),
    }


def dump_file_fields(new: NewFile) -> dict[str, str | list[str]]:
    """The form beside the file; what is not given is left out."""
    tags, collection = carried(new.tags, new.collection)
    fields = {
        "filename": new.filename,
        "title": new.title,
        "tags": _dump_form_tags(tags),
        "collection": None if collection is None else str(collection),
        "metadata": json.dumps(new.metadata, ensure_ascii=False) if new.metadata else None,
        "force_ocr": "true" if new.force_ocr else None,
        "source_path": new.source_path,
        "url": new.url,
        "kind": new.kind.value,
        "job_uid": str(new.job_uid),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _dump_form_tags(tags: list[str]) -> list[str] | None:
    """Repeated, or as one JSON list where a comma or a blank would be read as something else."""
    if not tags:
        return None
    return tags if form_tags(tags) == tags else [json.dumps(tags, ensure_ascii=False)]


def form_tags(values: list[str]) -> list[str]:
    """Tags of a form: repeated, one field with commas, or a JSON list."""
    if len(values) == 1 and values[0].lstrip().startswith("["):
        return _json_list(values[0])
    parts = values[0].split(",") if len(values) == 1 else values
    return [part.strip() for part in parts if part.strip()]


def form_metadata(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidParameter(
            "'metadata' is not JSON", hint='Send an object, such as {"author": "Ada"}.', parameter="metadata"
        ) from error
    return value


def _json_list(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise InvalidParameter("'tags' is not a list of words", hint='Send a,b or ["a", "b"].', parameter="tags")
    return value
