"""JavaScript pages, rendered by a real Chromium where one is installed."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from knowledge.engine.crawl.browser import HeadlessBrowser, find_browser
from knowledge.engine.crawl.browser_proxy import BrowserProxy
from knowledge.engine.crawl.options import CrawlOptions
from knowledge.engine.fetch.ssrf import AllowedHosts
from knowledge.engine.local import LocalEngine
from knowledge.errors import InvalidParameter
from knowledge.model import DocumentFilter
from tests.support.crawls import list_outcomes, run_crawl
from tests.support.web_site import SiteReply, WebSite, make_page, serve_site

SCRIPT = """
const text = ["Rendered tea", "is steeping", "in the kitchen while nobody minds the rain"].join(" ");
document.getElementById("root").innerHTML = "<h1>From a script</h1><p>" + text + "</p><a href='/next'>next</a>";
"""
SHELL = '<html><head><title>App</title></head><body><div id="root"></div><script src="/app.js"></script></body></html>'

LOOPBACK_ONLY = AllowedHosts(hosts=frozenset({"127.0.0.1"}))
"""Allows 127.0.0.1 and not localhost."""

with_browser = pytest.mark.skipif(find_browser("auto") is None, reason="No Chromium is installed on this machine.")


@pytest.fixture
def crawl(crawl: CrawlOptions) -> CrawlOptions:
    return replace(crawl, browser="auto")


def test_a_missing_browser_is_refused_with_its_path() -> None:
    with pytest.raises(InvalidParameter, match="/no/such/chromium"):
        find_browser("/no/such/chromium")
    assert find_browser("") is None


@pytest.mark.requirement("002.crawler.rendered")
@with_browser
async def test_a_javascript_page_is_rendered_and_its_links_followed(site: WebSite, local: LocalEngine) -> None:
    site.pages["/"] = SiteReply(SHELL)
    site.pages["/app.js"] = SiteReply(SCRIPT, content_type="text/javascript")
    site.put_page("/next")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/next": "created"}
    (document,) = [each for each in (await local.documents(DocumentFilter())).items if each.title == "App"]
    (chunk,) = await local.chunks(document.id)
    assert "Rendered tea is steeping in the kitchen" in chunk.text


@pytest.mark.requirement("002.crawler.browser_addresses")
@with_browser
async def test_the_browser_cannot_reach_forbidden_addresses(site: WebSite) -> None:
    with serve_site() as inside:
        inside.pages["/secret"] = SiteReply("secret", headers={"Access-Control-Allow-Origin": "*"})
        secret = f"http://localhost:{inside.port}/secret"
        script = f"fetch('{secret}').then(r => r.text()).then(t => document.body.append(t)).catch(() => 0);"
        frame = f"<iframe src='{secret}'></iframe><img src='{secret}'>"
        site.pages["/"] = SiteReply(f"<html><body><p>here</p><script>{script}</script>{frame}</body></html>")
        program = find_browser("auto")
        assert program is not None
        rendered = await HeadlessBrowser(program, LOOPBACK_ONLY, 30).render(site.url + "/", 1 << 20)
        assert "here" in rendered
        assert inside.requests == []


async def test_the_proxy_forwards_only_to_allowed_hosts(site: WebSite) -> None:
    site.pages["/"] = SiteReply(make_page("Through the proxy"))
    async with BrowserProxy(LOOPBACK_ONLY, 1 << 20) as proxy:
        address = f"http://127.0.0.1:{proxy.port}"
        async with httpx.AsyncClient(proxy=address, trust_env=False) as client:
            assert "Through the proxy" in (await client.get(site.url + "/")).text
            assert (await client.get(f"http://localhost:{site.port}/")).status_code == 403
            assert (await client.get("http://169.254.169.254/")).status_code == 403
            with pytest.raises(httpx.ProxyError, match="403"):
                await client.get("https://10.0.0.1/")


async def test_the_proxy_limits_the_size_of_a_page(site: WebSite) -> None:
    site.pages["/"] = SiteReply(b"x" * 1_000_000)
    async with (
        BrowserProxy(LOOPBACK_ONLY, 100_000) as proxy,
        httpx.AsyncClient(proxy=f"http://127.0.0.1:{proxy.port}", trust_env=False) as client,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(site.url + "/")
