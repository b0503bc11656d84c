"""Property tests of every route from the OpenAPI document: no 500, no hang, no lost document."""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from collections.abc import Iterator
from typing import cast

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.error_codes import ERRORS_BY_CODE
from knowledge.model import Caller, CallerKind, JobFilter, JobStatus, NewCorpus, NewNote, Query
from knowledge.surfaces.http.responses import MANAGER_PATHS, STREAM_PATH
from knowledge.surfaces.rest import make_rest_app
from knowledge.testing import SharedParsers, make_test_engine
from knowledge.toolsets.base import find_nearest
from knowledge.toolsets.manager.errors import ERROR_TABLE

EXAMPLES = 12
SECONDS = 60
VISITOR, NEIGHBOUR = "visitor", "neighbour"
"""The caller, an admin, and another account, whose documents no request may change."""


engines: list[Engine] = []
"""The engine behind the app; set when the tests run, after the routes were collected."""
numbers: dict[str, list[int]] = {}
"""The newest ids, so that some requests name existing objects."""
rounds = itertools.count()
app = make_rest_app(cast(Engine, None), engine_for=lambda _: engines[-1], max_file_bytes=1 << 20)
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@pytest.fixture(scope="module", autouse=True)
def local(tmp_path_factory: pytest.TempPathFactory, parsers: SharedParsers) -> Iterator[LocalEngine]:
    folder = tmp_path_factory.mktemp("properties")
    given = {"data": folder / "data", "workers": 2, "admin_users": VISITOR}
    engine = make_test_engine(Settings.model_validate(given), parsers=parsers)
    engine.start()
    try:
        asyncio.run(_add_documents(asyncio.run(_account(engine, NEIGHBOUR)), "tea"))
        engines.append(asyncio.run(_account(engine, VISITOR)))
        yield engine
    finally:
        engine.close()


@pytest.fixture(autouse=True)
def refill(local: LocalEngine) -> None:
    """Add the documents again that an earlier test removed."""
    asyncio.run(_add_documents(engines[-1], f"tea, {next(rounds)}"))


async def _account(engine: LocalEngine, name: str) -> Engine:
    known = [account for account in await engine.accounts.list_all() if account.username == name]
    account = known[0] if known else await engine.accounts.add(name)
    return engine.as_caller(Caller(CallerKind.ACCOUNT, account.id))


async def _add_documents(engine: Engine, subject: str) -> None:
    ended = []
    for number in range(3):
        job = await engine.add(NewNote(text=f"note {number} about {subject}", collection=f"group{number}"))
        ended.append(await engine.wait(job.id, SECONDS))
    corpora = [await engine.corpora.create(NewCorpus(title=subject, is_public=True)) for _ in range(2)]
    numbers.update(corpuses=[corpus.id for corpus in corpora])
    numbers.update(jobs=[job.id for job in ended], documents=[job.document_id or 0 for job in ended])
    assert {job.status for job in ended} == {JobStatus.COMPLETED}


@schema.parametrize()  # type: ignore[untyped-decorator]
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_route_answers_as_the_openapi_document_describes(case: schemathesis.Case) -> None:
    _bring_near(case)
    response = case.call(timeout=SECONDS)
    if response.status_code == 405 or (response.status_code == 404 and _no_route(response)):
        return
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    case.validate_response(response, checks=checks)
    if response.status_code >= 400 and not case.path.endswith("/health"):
        _check_refusal(case, response)


def _check_refusal(case: schemathesis.Case, response: schemathesis.Response) -> None:
    """Check the shape of an error; routes of contract 001 have its codes, and its stream sends an event."""
    [code] = response.headers["x-mcp-error-code"]
    if case.path == STREAM_PATH:
        event = json.loads(response.text.removeprefix("data: "))
        assert (event["type"], event["error_code"]) == ("error", code) and event["detail"]
        return
    error = response.json()["error"]
    of_the_manager = case.path.startswith(MANAGER_PATHS)
    assert code == (find_nearest(ERRORS_BY_CODE[error["code"]], ERROR_TABLE).code if of_the_manager else error["code"])
    assert error["message"]


def _bring_near(case: schemathesis.Case) -> None:
    """Map random ids and names to a small range, so that about half of them exist."""
    kind = next((kind for kind in ("jobs", "corpuses") if f"/{kind}/" in case.path), "documents")
    given, known = case.path_parameters, numbers[kind]
    number, name = str(given.get("id", "")), str(given.get("ref", ""))
    if number.isdecimal() and int(number) % 2:
        given["id"] = str(known[int(number) % len(known)])
    if name and zlib.crc32(name.encode("utf-8", "replace")) % 2:
        given["ref"] = f"group{len(name) % 3}"


def _no_route(response: schemathesis.Response) -> bool:
    """Whether the generated path matches no route."""
    return bool(response.json()["error"]["code"] == "not_found")


def test_documents_of_other_accounts_are_unchanged(local: LocalEngine) -> None:
    async def look() -> None:
        visitor, neighbour = await _account(local, VISITOR), await _account(local, NEIGHBOUR)
        for job in (await visitor.jobs(JobFilter(per_page=200))).items:
            assert (await visitor.wait(job.id, SECONDS)).status.has_ended, job
        assert await local.verify() == []
        assert (await neighbour.status()).documents == 3
        assert len((await neighbour.search(Query(text="note about tea"))).hits) == 3

    asyncio.run(look())
