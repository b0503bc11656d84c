"""What the OpenAPI document says beyond what FastAPI sees by itself: bodies that we read ourselves, and refusals."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from knowledge import __version__
from knowledge.wire import (
    AddBody,
    Body,
    CollectionEditBody,
    DocumentEditBody,
    FileFields,
    NewCollectionBody,
    NoteBody,
    SearchBody,
    TagsBody,
)
from knowledge.wire.shapes import ErrorShape

OpenApi = dict[str, Any]
"""A piece of the document, as FastAPI takes it."""

BODIES: tuple[type[Body], ...] = (
    AddBody,
    CollectionEditBody,
    DocumentEditBody,
    NewCollectionBody,
    NoteBody,
    SearchBody,
    TagsBody,
)
REFERENCE = "#/components/schemas/{model}"
MEANINGS = {
    400: "The request cannot be read.",
    401: "The key is missing or wrong.",
    403: "This is not allowed.",
    404: "There is no such thing.",
    409: "It stands against what is there.",
    413: "The body is too large.",
    415: "The content type or file format is not supported.",
    422: "The request does not fit.",
    500: "A fault of ours.",
    503: "Not able to answer at the moment.",
    504: "It took too long.",
}
ALWAYS = (400, 401, 403, 413, 422, 500, 503, 504)
ORIGINAL: dict[int | str, OpenApi] = {
    200: {"description": "The bytes.", "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


def takes(model: type[Body]) -> OpenApi:
    """The request body of a route that reads it by itself."""
    schema = {"$ref": REFERENCE.format(model=model.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def refusals(*statuses: int) -> dict[int | str, OpenApi]:
    return {status: {"model": ErrorShape, "description": MEANINGS[status]} for status in sorted({*ALWAYS, *statuses})}


def _form() -> OpenApi:
    schema = FileFields.model_json_schema(ref_template=REFERENCE)
    properties = {name: _as_field(name, field) for name, field in schema["properties"].items()}
    properties["file"] = {"type": "string", "format": "binary", "description": "The file; or else a note."}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _as_field(name: str, field: OpenApi) -> OpenApi:
    """A form holds text: metadata is JSON in it."""
    if name == "metadata":
        return {"type": "string", "description": "A JSON object, as text."}
    if name == "kind":
        return {"type": "string", "enum": ["file", "page", "note"], "description": field.get("description", "")}
    return {key: value for key, value in field.items() if key != "default"}


ADDING: OpenApi = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": REFERENCE.format(model="AddBody")}},
            "multipart/form-data": {"schema": _form()},
        },
    }
}


def describe(app: FastAPI) -> OpenApi:
    """The whole document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title="Knowledge Server", version=__version__, routes=app.routes)
        schemas = document["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for model in BODIES:
            schema = model.model_json_schema(ref_template=REFERENCE)
            schemas.update(schema.pop("$defs", {}))
            schemas[model.__name__] = schema
        document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        app.openapi_schema = document
    return app.openapi_schema
