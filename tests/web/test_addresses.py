"""The addresses of the page: exactly the listed ones, with the policy, and static files that never change."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.routing import Router

from knowledge.config import Settings
from knowledge.engine.local import LocalEngine
from knowledge.surfaces.http.app import make_http_app
from knowledge.surfaces.http.page_headers import CONTENT_SECURITY_POLICY
from knowledge.surfaces.web.assets import Assets, accepts_gzip
from knowledge.surfaces.web.pages import PAGE_PATHS, make_page_routes

UID = "0b0c1d2e-1111-4222-8333-444455556666"
ASSETS = Assets.read_package()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=Router(make_page_routes(ASSETS), redirect_slashes=False))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


def test_the_browser_and_the_server_know_the_same_addresses() -> None:
    listed = re.search(r"export const ADDRESSES = \{(.*?)\n\};", ASSETS.by_name["router.js"].plain.decode(), re.DOTALL)
    assert listed is not None
    assert sorted(re.findall(r'"(/[^"]*)"', listed[1])) == sorted(PAGE_PATHS)


@pytest.mark.parametrize("path", [path.replace("{uid:uuid}", UID) for path in PAGE_PATHS])
async def test_every_address_answers_the_page_under_the_policy(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert '<script type="module"' in answer.text and " style=" not in answer.text and "{static}" not in answer.text
    assert (await http.head(path)).status_code == 200


@pytest.mark.parametrize("path", ["/librarian", "/d/1", f"/d/{UID}/write", "/index.html", "/static/x/app.js", "/Add"])
async def test_other_addresses_stay_json(local: LocalEngine, settings: Settings, path: str) -> None:
    transport = httpx.ASGITransport(app=make_http_app(local, settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_the_page_can_be_switched_off(local: LocalEngine, settings: Settings) -> None:
    off = settings.model_copy(update={"page": False})
    transport = httpx.ASGITransport(app=make_http_app(local, off))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        assert (await client.get("/")).status_code == 404
        assert (await client.get(ASSETS.path_of("app.js"))).status_code == 404
        assert (await client.get("/docs")).status_code == 200


def test_the_setting_reads_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_PAGE", "off")
    assert Settings().page is False
    monkeypatch.setenv("KNOWLEDGE_PAGE", "on")
    assert Settings().page is True


async def test_static_files_are_compressed_and_kept_for_ever(http: httpx.AsyncClient) -> None:
    path = ASSETS.path_of("app.js")
    answer = await http.get(path)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip" and answer.headers["content-type"].startswith("text/javascript")
    assert answer.text == ASSETS.by_name["app.js"].plain.decode()
    plain = await http.get(path, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.text == answer.text
    assert plain.headers["etag"] != answer.headers["etag"]
    known = await http.get(path, headers={"if-none-match": f'"other", W/{answer.headers["etag"]}'})
    assert (known.status_code, known.content) == (304, b"")


async def test_a_file_of_another_version_or_outside_is_not_found(http: httpx.AsyncClient) -> None:
    for path in ("/static/0123456789abcdef/app.js", ASSETS.path_of("../pages.py"), ASSETS.path_of("%2e%2e/pages.py"),
                 ASSETS.path_of("app.py"), ASSETS.path_of("")):  # fmt: skip
        assert (await http.get(path)).status_code == 404


async def test_the_page_loads_every_module_of_the_first_view_at_once(http: httpx.AsyncClient) -> None:
    html = (await http.get("/")).text
    preloaded = re.findall(r'<link rel="modulepreload" href="([^"]+)">', html)
    assert preloaded == [ASSETS.path_of(name) for name in ASSETS.list_modules("app.js")]
    assert ASSETS.path_of("words/en.js") in preloaded and ASSETS.path_of("pages/settings.js") not in preloaded


def test_every_import_of_a_module_exists() -> None:
    scripts = {name: asset.plain.decode() for name, asset in ASSETS.by_name.items() if name.endswith(".js")}
    imported = {target for name in scripts for target in ASSETS.list_modules(name)}
    dynamic = {name for text in scripts.values() for name in re.findall(r'import\("\./([^"]+)"\)', text)}
    pages = re.findall(r'withTexts\("(\w+)"', scripts["later.js"])
    dynamic |= {f"words/{language}/{page}.js" for language in ("en", "de") for page in pages}
    assert imported | dynamic <= set(scripts)
    assert {f"styles/{page}.css" for page in pages} <= set(ASSETS.by_name)
    assert set(scripts) - set(ASSETS.list_modules("app.js")) <= dynamic | {
        target for name in dynamic for target in ASSETS.list_modules(name)
    }, "a module that nothing loads"


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip, br", True),
        ("br;q=1, GZIP;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_sent_only_to_clients_that_accept_it(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_another_content_has_another_address() -> None:
    changed = {**ASSETS.by_name, "app.js": type(ASSETS.by_name["app.js"]).from_bytes("app.js", b"// other")}
    assert Assets(changed).version != ASSETS.version
    assert gzip.decompress(changed["app.js"].gzipped) == b"// other"
