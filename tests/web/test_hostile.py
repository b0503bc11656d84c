"""Hostile documents and hostile pages: no script runs, no request leaves, nothing is readable from another origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.async_api import BrowserContext, Dialog, Page, expect

from knowledge.surfaces.http.page_headers import CONTENT_SECURITY_POLICY
from knowledge.surfaces.web.pages import PAGE_PATHS
from tests.data.extract import documents
from tests.support.browser import require_browser
from tests.support.pdfs import place_lines
from tests.support.server_process import ServerProcess, run_server_process_on_port
from tests.support.web_site import SiteReply, WebSite, serve_site
from tests.web.conftest import WITH_MODEL
from tests.web.steps import ask

OUTSIDE = "http://outside.invalid"
SCRIPT = "<script>window.pwned=1</script>"
IMAGE = f"<img src={OUTSIDE}/x.png onerror=window.pwned=1>"
BIDI = "\u202egnp.exe\u202c\u2066 right to left"
MARKDOWN = f"""# {IMAGE}{SCRIPT} marmalade

Marmalade {IMAGE} is boiled. {SCRIPT} <svg onload=window.pwned=1> <iframe srcdoc="{SCRIPT}"></iframe>

[click](javascript:window.pwned=1) [data](data:text/html,{SCRIPT}) ![picture]({OUTSIDE}/tracker.png)
<a href="javascript:window.pwned=1">marmalade</a> <style>@import url({OUTSIDE}/x.css);</style>

| {SCRIPT} | {IMAGE} |
|---|---|
| <b onmouseover=window.pwned=1>marmalade</b> | [x](jav&#x61;script:window.pwned=1) |

```{SCRIPT}
marmalade {SCRIPT}
```
"""
HTML = f"""<!doctype html><html><head><title>{BIDI} marmalade</title><base href="{OUTSIDE}/">{SCRIPT}
<meta http-equiv=refresh content="0;url={OUTSIDE}/"><link rel=stylesheet href="{OUTSIDE}/x.css"></head>
<body onload=window.pwned=1><h1>Marmalade page</h1><p>Marmalade of quinces {IMAGE}</p>
<form action={OUTSIDE}><button autofocus onfocus=window.pwned=1>x</button></form></body></html>"""
SVG = f"""<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" onload="window.pwned=1">
<script>window.pwned=1</script><image xlink:href="{OUTSIDE}/x.png"/>
<text x="10" y="20">Marmalade drawing</text></svg>"""
NAME = '"><img src=x onerror=window.pwned=1> marmalade.md'


def make_hostile_pdf() -> bytes:
    pdf = documents.Pdf()
    pdf.info = b"/Title (<img src=x onerror=window.pwned=1> marmalade)"
    pdf.text(
        *place_lines(60, 100, ["Marmalade <script>window.pwned=1</script> on a drawn page", "is only text there."])
    )
    return pdf.to_bytes()


HOSTILE_FILES = {
    NAME: MARKDOWN.encode(),
    f"{BIDI} \u0007\u001b[31m.html": HTML.encode(),
    "drawing<script>.svg": SVG.encode(),
    "marmalade.pdf": make_hostile_pdf(),
    "line.txt": b"marmalade" + b"<b>" * (1 << 18) + b"[*_`" * (1 << 16),
    "broken<img src=x onerror=window.pwned=1>.pdf": b"%PDF-1.7\nbroken",
}


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server full of documents, names, tags and collections that try to run scripts."""
    require_browser()
    with run_server_process_on_port(0, tmp_path_factory.mktemp("hostile"), WITH_MODEL) as running:
        made = running.http.post("/collections", json={"title": f"{IMAGE} {BIDI}", "name": "preserves"})
        assert made.is_success, made.text
        for name, content in HOSTILE_FILES.items():
            about = {"collection": "preserves", "tags": [IMAGE, BIDI]}
            answer = running.http.post("/jobs", files={"file": (name, content)}, data=about)
            running.wait_for_outcome(answer)
        note = {"note": MARKDOWN, "title": f"{SCRIPT}\u0000{BIDI}", "tags": [SCRIPT], "collection": "preserves"}
        running.wait_for_outcome(running.http.post("/jobs", json=note))
        yield running


def list_documents(server: ServerProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.http.get("/documents", params={"per_page": 100}).json()["documents"]
    return found


async def check_untouched(page: Page) -> None:
    """Check that no script of a document ran and that the page holds only elements of our own."""
    assert await page.evaluate("window.pwned") is None
    strange = (
        "script:not([src]), iframe, object, embed, base, style, form[action], img[src*='outside'], [onerror], [onload]"
    )
    assert await page.locator(f"#app :is({strange})").count() == 0
    for address in await page.locator("a[href]").evaluate_all("(links) => links.map((link) => link.href)"):
        assert address.startswith(("http://", "https://"))


async def test_documents_names_and_tags_run_no_script_and_send_no_request(
    page: Page, hostile_server: ServerProcess
) -> None:
    """The test also fails on an error, on a violation of the policy, and on a request to another server."""
    dialogs: list[Dialog] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog))
    found = list_documents(hostile_server)
    assert len(found) >= 4
    await ask(page, hostile_server, "marmalade")
    if await page.locator("details.far").count():
        await page.locator("details.far > summary").click()
    for score in await page.locator("button.score").all():
        await score.click()
    await check_untouched(page)
    for document in found:
        for view in ("", "&view=text"):
            await page.goto(f"{hostile_server.url}/d/{document['uid']}?at=0&q=marmalade{view}")
            await expect(page.get_by_role("heading", level=1)).not_to_be_empty()
            await expect(page.locator(".passage, .sheet").first).to_be_attached()
            await check_untouched(page)
    for path in ("/", "/activity", "/activity?show=failed", "/add", "/add?what=note", "/settings"):
        await page.goto(f"{hostile_server.url}{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_attached()
        await page.wait_for_load_state("load")
        await check_untouched(page)
    assert dialogs == []


async def test_a_hostile_name_stays_text_that_is_isolated(page: Page, hostile_server: ServerProcess) -> None:
    await page.goto(f"{hostile_server.url}/activity")
    name = page.locator(".row .name", has_text="onerror").first
    await expect(name).to_contain_text("<img src=x onerror=window.pwned=1>")
    assert await page.locator(".row .name bdi").count() == await page.locator(".row .name").count()
    shown = await page.locator("#app").inner_text()
    assert not any(sign in shown for sign in "\u0000\u0007\u001b")


async def test_a_note_with_hostile_markdown_is_previewed_as_text(page: Page, hostile_server: ServerProcess) -> None:
    await page.goto(f"{hostile_server.url}/add?what=note")
    await page.get_by_label("Text").fill(MARKDOWN)
    await page.get_by_role("button", name="Preview").click()
    preview = page.locator(".preview")
    await expect(preview).to_contain_text(SCRIPT)
    assert await preview.locator("img, script, svg, iframe, style").count() == 0
    await check_untouched(page)


async def test_an_original_is_a_download_that_runs_nothing(hostile_server: ServerProcess) -> None:
    for document in list_documents(hostile_server):
        answer = hostile_server.http.get(f"/documents/{document['uid']}/file")
        if answer.status_code == httpx.codes.NOT_FOUND:
            continue
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


FOREIGN_CALLS = """async (server) => {
  const outcome = {};
  const event = (target, good, bad) => new Promise((resolve) => {
    target.addEventListener(good, () => resolve("let in"));
    target.addEventListener(bad, () => resolve("refused"));
  });
  const element = (name, attributes) => {
    const made = Object.assign(document.createElement(name), attributes), heard = event(made, "load", "error");
    document.body.append(made);
    return heard;
  };
  const call = async (path, options) => {
    try {
      await (await fetch(server + path, { credentials: "include", ...options })).text();
      return "let in";
    } catch { return "refused"; }
  };
  const note = "written by a stranger", json = { "Content-Type": "application/json" };
  outcome.picture = await element("img", { src: `${server}/api/v1/documents/1/pages/1?width=900` });
  outcome.script = await element("script", { src: `${server}/api/v1/documents` });
  outcome.read = await call("/api/v1/documents", {});
  outcome.write = await call("/api/v1/jobs", { method: "POST", body: JSON.stringify({ note }), headers: json });
  const form = { method: "POST", mode: "no-cors", body: new URLSearchParams({ note }), credentials: "include" };
  outcome.opaque = (await fetch(`${server}/api/v1/jobs`, form)).type;
  const source = new EventSource(`${server}/api/v1/events`, { withCredentials: true });
  outcome.events = await event(source, "open", "error");
  source.close();
  return outcome;
}"""


@pytest.fixture
def foreign_site() -> Iterator[WebSite]:
    with serve_site() as site:
        site.put_page("/", title="A page on another port of this machine")
        yield site


async def test_a_page_of_another_origin_reads_and_writes_nothing(
    context: BrowserContext, server: ServerProcess, foreign_site: WebSite
) -> None:
    before = server.http.get("/jobs").json()["total"]
    page = await context.new_page()
    await page.goto(foreign_site.url)
    outcome = await page.evaluate(FOREIGN_CALLS, server.url)
    assert outcome == {
        "picture": "refused", "script": "refused", "read": "refused", "write": "refused", "opaque": "opaque",
        "events": "refused",
    }  # fmt: skip
    assert server.http.get("/jobs").json()["total"] == before


async def test_a_form_of_another_origin_is_refused(
    context: BrowserContext, server: ServerProcess, foreign_site: WebSite
) -> None:
    before = server.http.get("/jobs").json()["total"]
    for encoding in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
        form = f'<form id=f method=post enctype="{encoding}" action="{server.url}/api/v1/jobs">'
        foreign_site.pages["/form"] = SiteReply(
            f"<!doctype html><title>Form</title>{form}<input name=note value=x></form>"
        )
        page = await context.new_page()
        await page.goto(f"{foreign_site.url}/form")
        async with page.expect_navigation() as leaving:
            await page.evaluate("document.getElementById('f').submit()")
        answer = await leaving.value
        assert answer is not None and answer.status == httpx.codes.FORBIDDEN
    assert server.http.get("/jobs").json()["total"] == before


async def test_another_page_cannot_frame_the_page(
    context: BrowserContext, server: ServerProcess, foreign_site: WebSite
) -> None:
    foreign_site.pages["/frame"] = SiteReply(f'<!doctype html><iframe src="{server.url}/"></iframe>')
    page = await context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    await page.goto(f"{foreign_site.url}/frame")
    assert any("frame-ancestors" in message for message in messages)
    assert not await page.frame_locator("iframe").locator("#app").count()


def test_every_path_that_answers_html_has_the_policy(server: ServerProcess) -> None:
    uid = list_documents(server)[0]["uid"]
    paths = [path.replace("{uid:uuid}", uid) for path in PAGE_PATHS]
    pages = {}
    with httpx.Client(base_url=server.url, headers={"accept": "text/html"}, timeout=60) as http:
        for path in [*paths, "/docs", "/nothing", "/static/x", "/api/v1/nothing", "/mcp", "/health", "/openapi.json"]:
            answer = http.get(path)
            if answer.headers.get("content-type", "").startswith("text/html"):
                pages[path] = answer.headers.get("content-security-policy")
                assert answer.headers["x-content-type-options"] == "nosniff", path
    assert set(pages) >= {*paths, "/docs"}
    assert {path for path, policy in pages.items() if policy != CONTENT_SECURITY_POLICY} == set()
