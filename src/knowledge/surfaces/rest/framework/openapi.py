"""Parts of the OpenAPI document that FastAPI cannot derive: errors, files, forms, and path parameters."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

from fastapi import FastAPI, Path
from fastapi.openapi.utils import get_openapi
from pydantic import GetCoreSchemaHandler, PlainValidator, WithJsonSchema
from pydantic_core import CoreSchema

from knowledge.model import CollectionRef, Ref
from knowledge.surfaces.http.browser_sessions import HTTP_COOKIE
from knowledge.wire import AddBody, ErrorShape, FileFields, adapter, json_schema, load_collection_ref, load_ref
from knowledge.wire.accounts import load_key_id
from knowledge.wire.collections import load_corpus_id

OpenApi = dict[str, Any]
"""A part of the OpenAPI document."""

T = TypeVar("T")


class ReusedSchema:
    """Reuses the pydantic schema that `wire` has built for a type.

    FastAPI builds the schema of a dataclass again for every route and router, which took 0.3 s of each start.
    """

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return adapter(source).core_schema


ResponseModel: TypeAlias = Annotated[T, ReusedSchema()]

UUID_PATTERN = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
ID_SCHEMA = {"type": "string", "pattern": f"^([0-9]{{1,18}}|{UUID_PATTERN})$"}
NUMBER_SCHEMA = {"type": "string", "pattern": "^[0-9]{1,18}$"}
COLLECTION_SCHEMA = {"type": "string", "pattern": "^[^/\\\\]+$"}
Id: TypeAlias = Annotated[
    Ref, PlainValidator(load_ref), WithJsonSchema(ID_SCHEMA), Path(description="The id or the UUID.")
]
CorpusId: TypeAlias = Annotated[
    int, PlainValidator(load_corpus_id), WithJsonSchema(NUMBER_SCHEMA), Path(description="The id of the corpus.")
]
KeyId: TypeAlias = Annotated[
    int, PlainValidator(load_key_id), WithJsonSchema(NUMBER_SCHEMA), Path(description="The id of the API key.")
]
CollectionName: TypeAlias = Annotated[
    CollectionRef,
    PlainValidator(load_collection_ref),
    WithJsonSchema(COLLECTION_SCHEMA),
    Path(description="The name, id or UUID of the collection."),
]

REFERENCE = "#/components/schemas/{model}"
STATUS_DESCRIPTIONS = {
    400: "The request cannot be parsed.",
    401: "The API key is missing or not valid.",
    403: "The caller is not allowed to do this.",
    404: "Not found.",
    409: "Conflicts with existing data.",
    412: "The document is not the one of If-Match.",
    413: "The body is too large.",
    415: "The content type or file format is not supported.",
    422: "Validation failed.",
    429: "Rate limit exceeded; Retry-After has the seconds to wait.",
    500: "Internal server error.",
    503: "Temporarily unavailable.",
    504: "Timed out.",
}
COMMON_STATUSES = (400, 401, 403, 413, 422, 429, 500, 503, 504)
"""Errors that every route may answer."""
FILE_RESPONSE: dict[int | str, OpenApi] = {
    200: {"description": "The file.", "content": {"application/octet-stream": {"schema": {"type": "string"}}}}
}


def errors(*statuses: int) -> dict[int | str, OpenApi]:
    """Declare the errors of a route, by reference, because FastAPI builds a validator for each model it is given."""
    content = {"application/json": {"schema": {"$ref": REFERENCE.format(model="ErrorShape")}}}
    return {status: {"description": STATUS_DESCRIPTIONS[status], "content": content} for status in statuses}


def _make_form_schema() -> OpenApi:
    fields = FileFields.model_json_schema(ref_template=REFERENCE)["properties"]
    properties = {name: _describe_field(name, field) for name, field in fields.items()}
    properties["file"] = {"type": "string", "format": "binary", "description": "The file, unless 'note' is sent."}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _describe_field(name: str, field: OpenApi) -> OpenApi:
    """Describe a field as text, because forms have no other types; metadata is JSON."""
    if name == "metadata":
        return {"type": "string", "description": "A JSON object as text."}
    return {key: value for key, value in field.items() if key != "default"}


def _make_request_body(**schemas: OpenApi) -> OpenApi:
    types = {"json": "application/json", "form": "multipart/form-data"}
    content = {types[name]: {"schema": schema} for name, schema in schemas.items()}
    return {"requestBody": {"required": True, "content": content}}


FORM_BODY = _make_request_body(form=_make_form_schema())
NOTE_OR_FORM_BODY = _make_request_body(json={"$ref": REFERENCE.format(model="AddBody")}, form=_make_form_schema())


def describe(app: FastAPI) -> OpenApi:
    """Build the OpenAPI document once, with the schemas that routes refer to by name and the security scheme."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas: OpenApi = document["components"]["schemas"]
        note, error = AddBody.model_json_schema(ref_template=REFERENCE), json_schema(ErrorShape, REFERENCE)
        schemas |= {**note.pop("$defs", {}), **error.pop("$defs", {}), "AddBody": note, "ErrorShape": error}
        security = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": HTTP_COOKIE},
        }
        document["components"] = {"schemas": dict(sorted(schemas.items())), "securitySchemes": security}
        app.openapi_schema = document
    return app.openapi_schema
