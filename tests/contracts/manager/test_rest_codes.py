"""REST routes for accounts, corpora and admins: each error has contract 001's code in X-MCP-Error-Code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import httpx
import pytest
from pydantic import SecretStr

from knowledge.engine.local import LocalEngine
from knowledge.model import Permission
from knowledge.surfaces.http.app import make_http_app
from tests.contracts.app_server import serve_app
from tests.contracts.manager.conftest import Person, Product, make_person

Act: TypeAlias = Callable[[httpx.AsyncClient, Person, int], Awaitable[httpx.Response]]
"""A request by Ada, who may only read corpus N."""


def a_file(name: str, data: bytes, kind: str = "application/octet-stream") -> Any:
    return {"file": (name, data, kind)}


ACTS: list[tuple[str, int, Act]] = [
    ("auth.insufficient_permissions", 403,
     lambda http, me, n: http.post(f"/api/v1/corpuses/{n}/upload", files=a_file("a.md", b"Tea"))),
    ("auth.admin_required", 403, lambda http, me, n: http.post(f"/api/v1/admin/corpuses/{n}/approve")),
    ("auth.admin_required", 403, lambda http, me, n: http.get("/api/v1/admin/corpuses/pending")),
    ("auth.invalid_api_key", 401,
     lambda http, me, n: http.get("/api/v1/user/api-keys", headers={"X-API-Key": "kn_not_one"})),
    ("auth.invalid_credentials", 401,
     lambda http, me, n: http.post("/api/v1/user/login", json={"username": me.name, "password": "not the one"})),
    ("resource.corpus_not_found", 404, lambda http, me, n: http.get("/api/v1/corpuses/999999")),
    ("validation.invalid_corpus_id", 422, lambda http, me, n: http.get("/api/v1/corpuses/abc")),
    ("validation.conflict", 409,
     lambda http, me, n: http.post("/api/v1/user/register", json={"username": me.name, "password": "long enough"})),
    ("validation.invalid_parameter", 422, lambda http, me, n: http.post("/api/v1/user/register", json={})),
    ("validation.invalid_collection_name", 422,
     lambda http, me, n: http.post("/api/v1/corpuses", json={"display_name": "A", "name": "a/b"})),
]  # fmt: skip

UPLOADS: list[tuple[str, int, dict[str, Any]]] = [
    ("validation.no_valid_files", 422, {"json": {}}),
    ("validation.no_valid_files", 422, {"files": {"note": (None, "Tea")}}),
    ("validation.invalid_filename", 422, {"files": a_file("..", b"Tea")}),
    ("file.unsupported_type", 415, {"files": a_file("a.exe", b"MZ")}),
    ("file.invalid_mime", 415, {"files": a_file("a.txt", b"Tea", "image/png")}),
    ("file.too_large", 413, {"files": a_file("a.txt", b"x" * (2 << 20))}),
]


@pytest.mark.requirement("001.errors.rest")
@pytest.mark.parametrize(("code", "status", "act"), ACTS, ids=[code for code, _, _ in ACTS])
async def test_an_error_has_its_code(ada: Person, bob: Person, code: str, status: int, act: Act) -> None:
    corpus = await bob.create_corpus("Shared")
    await bob.engine.corpora.grant(corpus.id, ada.name, Permission.READ)
    async with ada.http() as http:
        answer = await act(http, ada, corpus.id)
    assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (status, code), answer.text
    assert set(answer.json()["error"]) == {"code", "message", "hint", "details"}


@pytest.mark.requirement("001.errors.rest")
async def test_an_upload_error_has_its_code(local: LocalEngine, product: Product) -> None:
    small = product.settings.model_copy(update={"max_file_mb": 1})
    async with serve_app(make_http_app(local, small)) as url:
        ada = await make_person(local, url)
        corpus = await ada.create_corpus("Own")
        async with ada.http() as http:
            for code, status, sent in UPLOADS:
                answer = await http.post(f"/api/v1/corpuses/{corpus.id}/upload", **sent)
                assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (status, code), answer.text
            granted = {"username": "nobody-at-all", "permission": "read"}
            unknown = await http.post(f"/api/v1/corpuses/{corpus.id}/permissions", json=granted)
            assert (unknown.status_code, unknown.headers["x-mcp-error-code"]) == (404, "resource.user_not_found")


@pytest.mark.requirement("001.errors.rest")
async def test_an_authentication_error_over_rest_has_its_code(local: LocalEngine, product: Product) -> None:
    locked = product.settings.model_copy(update={"api_key": SecretStr("the operator's")})
    async with serve_app(make_http_app(local, locked)) as url, httpx.AsyncClient(base_url=url) as http:
        for path in ("/api/v1/corpuses", "/api/v1/user", "/api/v1/admin/corpuses/pending"):
            answer = await http.get(path)
            assert (answer.status_code, answer.headers["x-mcp-error-code"]) == (401, "auth.missing_api_key")
        assert (await http.get("/api/v1/collections")).headers["x-mcp-error-code"] == "missing_key"
