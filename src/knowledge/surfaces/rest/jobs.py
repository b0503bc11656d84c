"""POST /jobs takes a file or a note in; the others watch the work and steer it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import JsonValue, ValidationError
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from knowledge.errors import Invalid, InvalidParameter, MissingParameter, UnsupportedFormat
from knowledge.model import Job
from knowledge.surfaces.http.responses import answer
from knowledge.surfaces.rest.framework.bodies import content_type, read_json
from knowledge.surfaces.rest.framework.context import context_of, engine_of
from knowledge.surfaces.rest.framework.forms import content_of, file_of, filename_of, read_form, texts
from knowledge.surfaces.rest.framework.openapi import ADDING, Id, answers
from knowledge.surfaces.rest.framework.routes import Route
from knowledge.surfaces.rest.framework.validation import refuse
from knowledge.wire import AddBody, FileFields, JobListing, dump_accepted, dump_job, dump_jobs, load_ref
from knowledge.wire.requests import form_metadata, form_tags
from knowledge.wire.shapes import AcceptedShape, JobShape, JobsShape

router = APIRouter(route_class=Route, tags=["jobs"])

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


@router.post(
    "/jobs",
    status_code=202,
    openapi_extra=ADDING,
    responses=answers(AcceptedShape, 404, 409, 413, 415, status=202),
)
async def add(request: Request) -> Response:
    """Accept a file or a note; its job goes on after the answer. The same bytes again are a duplicate (409)."""
    given = content_type(request)
    if given in FORMS:
        async with read_form(request, context_of(request).max_file_bytes) as form:
            job = await add_form(request, form)
    elif given in ("", "application/json") or given.endswith("+json"):
        body = await read_json(request, AddBody)
        job = await engine_of(request).add(body.to_note())
    else:
        raise UnsupportedFormat(
            f"The body is {given[:80]}", hint="Send multipart/form-data or application/json.", content_type=given[:80]
        )
    return answer(dump_accepted(job), 202)


async def add_form(request: Request, form: FormData, into: int | None = None) -> Job:
    """What a form holds, into the collection that the address names or, without one, that the form does."""
    fields, file = _fields(form), file_of(form)
    if into is not None:
        fields = fields.going_into(into)
    has_note = bool(texts(form).get("note"))
    if file is None:
        if not has_note:
            raise MissingParameter("'file' or 'note' is missing", hint="Send one of the two.", parameter="file")
        return await engine_of(request).add(fields.to_note())
    if has_note:
        raise Invalid("The form holds a file and a note", hint="Send one of the two.")
    filename = filename_of(file) if fields.filename is None else fields.filename
    if not filename:
        raise InvalidParameter("'file' came without a filename", hint="With curl: -F file=@PATH.", parameter="file")
    return await engine_of(request).add(fields.to_file(filename, content_of(file)))


def _fields(form: FormData) -> FileFields:
    values: dict[str, JsonValue] = {}
    for name, given in texts(form).items():
        if name == "tags":
            values[name] = [*form_tags(given)]
        elif len(given) > 1:
            raise InvalidParameter(f"'{name[:80]}' is given more than once", parameter=name[:80])
        elif given[0] or name == "note":
            values[name] = form_metadata(given[0]) if name == "metadata" else given[0]
        elif name not in FileFields.model_fields:
            values[name] = ""
    try:
        return FileFields.model_validate(values, strict=False)
    except ValidationError as error:
        raise refuse(error.errors(include_url=False), {*FileFields.model_fields, "file"}) from error


@router.get("/jobs", responses=answers(JobsShape))
async def jobs(request: Request, wanted: Annotated[JobListing, Query()]) -> Response:
    """List the jobs, newest first."""
    return answer(dump_jobs(await engine_of(request).jobs(wanted.to_filter())))


@router.get("/jobs/{id}", responses=answers(JobShape, 404))
async def job(request: Request, id: Id) -> Response:
    """Show one job, by its number or UUID."""
    return answer(dump_job(await engine_of(request).job(load_ref(id))))


@router.post("/jobs/{id}/cancel", responses=answers(JobShape, 404, 409))
async def cancel(request: Request, id: Id) -> Response:
    """Stop a job; what it had done is taken back."""
    return answer(dump_job(await engine_of(request).cancel(load_ref(id))))


@router.post("/jobs/{id}/retry", responses=answers(JobShape, 404, 409))
async def retry(request: Request, id: Id) -> Response:
    """Queue a failed or cancelled job again."""
    return answer(dump_job(await engine_of(request).retry(load_ref(id))))
