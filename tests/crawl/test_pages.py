"""Which pages a crawl visits, in which order, and the reasons for those left out; on local and remote engines."""

from __future__ import annotations

import gzip

import pytest

from knowledge.engine.api import Engine
from knowledge.engine.local import LocalEngine
from knowledge.errors import AddressForbidden, CollectionNotFound, InvalidParameter
from knowledge.model import DocumentFilter, DocumentKind, JobStatus, NewCollection, Query, SearchFilter
from knowledge.model.crawls import NewCrawl
from tests.support.crawls import find_page, list_outcomes, list_titles, run_crawl
from tests.support.web_site import SiteReply, WebSite, make_page


@pytest.mark.requirement("002.crawler.breadth_first")
async def test_a_crawl_goes_breadth_first_and_visits_each_page_once(site: WebSite, engine: Engine) -> None:
    site.put_page("/", "/a", "/b")
    site.put_page("/a", "/a/deep", "/b/", "/b#part", "/")
    site.put_page("/b", "/b/deep", "/a?utm_source=b")
    site.put_page("/a/deep", "/a/deep/deeper")
    site.put_page("/b/deep")
    site.put_page("/a/deep/deeper")
    crawl = await run_crawl(engine, site.url + "/")
    assert site.list_requested_paths() == ["/", "/a", "/b", "/a/deep", "/b/deep", "/a/deep/deeper"]
    assert crawl.job.status is JobStatus.COMPLETED
    assert (crawl.counts.crawled, crawl.counts.created, crawl.counts.failed) == (6, 6, 0)


@pytest.mark.requirement("002.crawler.document")
async def test_a_crawled_page_is_a_document_with_its_url(site: WebSite, engine: Engine) -> None:
    site.put_page("/guide", title="The guide to tea", text="Green tea wants water of eighty degrees.")
    crawl = await run_crawl(engine, site.url + "/guide", recursive=False)
    assert crawl.collection is not None
    assert (crawl.collection.source_type, crawl.collection.url) == ("crawl", site.url + "/guide")
    (document,) = (await engine.documents(DocumentFilter())).items
    assert (document.kind, document.title, document.url) == (DocumentKind.PAGE, "The guide to tea", site.url + "/guide")
    assert document.language == "en"
    wanted = SearchFilter(collections=(crawl.collection.uid,))
    answer = await engine.search(Query(text="how hot for green tea", filter=wanted))
    assert "eighty degrees" in answer.hits[0].chunk.text
    assert find_page(crawl, "/guide").document_uid == document.uid


@pytest.mark.requirement("002.crawler.single")
async def test_without_recursion_one_page_is_crawled(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/a")
    site.put_page("/a")
    crawl = await run_crawl(local, site.url + "/", recursive=False)
    assert site.list_requested_paths() == ["/"]
    assert crawl.counts.crawled == 1


@pytest.mark.requirement("002.crawler.max_pages")
async def test_max_pages_is_kept_and_the_remaining_urls_are_counted(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", *(f"/page{number}" for number in range(10)))
    for number in range(10):
        site.put_page(f"/page{number}")
    crawl = await run_crawl(local, site.url + "/", max_pages=4)
    assert (crawl.counts.crawled, crawl.counts.pending) == (4, 7)
    assert any("7 more URLs" in warning for warning in crawl.job.warnings)


@pytest.mark.requirement("002.crawler.traps")
async def test_a_crawler_trap_of_endless_links_ends(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/day/1")
    site.default_reply = lambda asked: (
        SiteReply(make_page(asked.path, f"/day/{int(asked.path[5:]) + 1}", f"{asked.path}/x/x/x/x/x"))
        if asked.path.startswith("/day/") and asked.path[5:].isdecimal()
        else SiteReply("", 404)
    )
    crawl = await run_crawl(local, site.url + "/", max_pages=8)
    assert crawl.counts.crawled == 8
    assert "endless path" in list_outcomes(crawl).values()


@pytest.mark.requirement("002.crawler.reasons")
async def test_every_skipped_url_has_its_reason(site: WebSite, engine: Engine) -> None:
    site.put_page(
        "/", "/ok", "/private/x", "/archive/old", "/photo.jpg", "/feed", "/gone", "/copy", "https://example.com/x"
    )
    site.put_page("/ok", title="Same")
    site.pages["/copy"] = site.pages["/ok"]
    site.pages["/robots.txt"] = SiteReply("User-agent: *\nDisallow: /private/", content_type="text/plain")
    site.pages["/feed"] = SiteReply("<rss/>", content_type="application/rss+xml")
    site.pages["/gone"] = SiteReply("", 410)
    site.put_page("/archive/old")
    crawl = await run_crawl(engine, site.url + "/", exclude=("/archive/",))
    assert list_outcomes(crawl) == {
        "/": "created",
        "/ok": "created",
        "/private/x": "robots",
        "/archive/old": "excluded",
        "/photo.jpg": "unsupported type",
        "/feed": "unsupported type",
        "/gone": "HTTP status",
        "/copy": "duplicate",
        "/x": "off-site",
    }
    assert find_page(crawl, "/gone").http_status == 410
    assert "/private/x" not in site.list_requested_paths()
    assert crawl.job.status is JobStatus.PARTIAL


@pytest.mark.requirement("002.crawler.canonical")
async def test_pages_with_the_same_canonical_url_are_ingested_once(site: WebSite, local: LocalEngine) -> None:
    head = f'<link rel="canonical" href="{site.url}/tea">'
    site.put_page("/", "/tea?sort=a", "/tea?sort=b")
    site.put_page("/tea?sort=a", title="Tea", head=head)
    site.put_page("/tea?sort=b", title="Tea again", head=head)
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/tea?sort=a": "created", "/tea?sort=b": "duplicate"}


@pytest.mark.requirement("002.crawler.noindex")
async def test_a_noindex_page_is_skipped_and_its_links_are_followed(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/hidden")
    site.put_page("/hidden", "/below", head='<meta name="robots" content="noindex">')
    site.put_page("/below")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {"/": "created", "/hidden": "robots", "/below": "created"}


@pytest.mark.requirement("002.crawler.sitemaps")
async def test_pages_that_nothing_links_to_are_found_in_sitemaps(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/docs/")
    for path in ("/docs/a", "/docs/b", "/elsewhere"):
        site.put_page(path)
    inner = f"<urlset><url><loc>{site.url}/elsewhere</loc></url><url><loc>{site.url}/docs/a</loc></url></urlset>"
    packed = gzip.compress(f"<urlset><url><loc>{site.url}/docs/b</loc></url></urlset>".encode())
    index = f"<sitemapindex><loc>{site.url}/one.xml</loc><loc>{site.url}/two.xml.gz</loc></sitemapindex>"
    site.pages["/robots.txt"] = SiteReply(f"Sitemap: {site.url}/index.xml", content_type="text/plain")
    site.pages["/index.xml"] = SiteReply(index, content_type="application/xml")
    site.pages["/one.xml"] = SiteReply(inner, content_type="application/xml")
    site.pages["/two.xml.gz"] = SiteReply(packed, content_type="application/gzip")
    crawl = await run_crawl(local, site.url + "/docs/")
    assert crawl.counts.crawled == 4
    pages = [path for path in site.list_requested_paths() if "xml" not in path]
    assert pages == ["/docs/", "/docs/a", "/docs/b", "/elsewhere"], "pages below the start page come first"


@pytest.mark.requirement("002.crawler.llms_txt")
async def test_pages_in_llms_txt_are_crawled_unless_their_html_twin_is(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/guide.html")
    site.put_page("/guide.html")
    site.pages["/llms.txt"] = SiteReply(
        "# Site\n- [Guide](/guide.html.md): the guide\n- [More](/more.md): more\n", content_type="text/plain"
    )
    site.pages["/more.md"] = SiteReply("# More\n\nMore about tea and kettles.", content_type="text/markdown")
    crawl = await run_crawl(local, site.url + "/")
    assert list_outcomes(crawl) == {
        "/": "created", "/guide.html": "created", "/guide.html.md": "duplicate", "/more.md": "created"
    }  # fmt: skip
    assert "/guide.html.md" not in site.list_requested_paths()


@pytest.mark.requirement("002.crawler.files")
async def test_files_on_the_site_are_read_like_any_other_file(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/notes.txt", "/table.csv", "/download")
    site.pages["/notes.txt"] = SiteReply("Notes about kettles", content_type="text/plain")
    site.pages["/table.csv"] = SiteReply("tea,minutes\ngreen,2\n", content_type="text/csv")
    site.pages["/download"] = SiteReply("# Oolong\n\nSteep it often.", content_type="text/markdown")
    crawl = await run_crawl(local, site.url + "/")
    assert crawl.counts.crawled == 4
    found = await local.documents(DocumentFilter(per_page=10))
    assert {document.doc_type for document in found.items} == {"html", "txt", "csv", "md"}


@pytest.mark.requirement("002.crawler.encodings")
async def test_missing_and_wrong_charsets_are_corrected(site: WebSite, local: LocalEngine) -> None:
    site.put_page("/", "/koi", "/lying")
    russian = "Чай на кухне остывает, а дождь за окном всё идёт и идёт."
    koi = f"<html><title>Чай</title><body><p>{russian}</p></body></html>".encode("koi8-r")
    site.pages["/koi"] = SiteReply(koi, content_type="text/html; charset=koi8-r")
    lying = f'<html><meta charset="iso-8859-1"><title>Дождь</title><body><p>{russian} Снова.</p></body></html>'
    site.pages["/lying"] = SiteReply(lying, content_type="text/html; charset=iso-8859-1")
    await run_crawl(local, site.url + "/")
    assert {"Чай", "Дождь"} <= set(await list_titles(local))
    answer = await local.search(Query(text="кухне"))
    assert russian in answer.hits[0].chunk.text


async def test_a_crawl_adds_pages_to_an_existing_collection(site: WebSite, engine: Engine) -> None:
    site.put_page("/")
    collection = await engine.create_collection(NewCollection(title="Reading"))
    crawl = await run_crawl(engine, site.url + "/", collection=collection.uid)
    assert crawl.collection_uid == collection.uid
    assert (await engine.collection(collection.uid)).document_count == 1


async def test_crawls_are_listed_newest_first(site: WebSite, engine: Engine) -> None:
    site.put_page("/")
    site.put_page("/b")
    first = await run_crawl(engine, site.url + "/")
    second = await run_crawl(engine, site.url + "/b", recursive=False)
    listed = await engine.crawls(page=1, per_page=1)
    assert (listed.total, [crawl.job.id for crawl in listed.items]) == (2, [second.job.id])
    assert (await engine.crawl_report(first.job.uid)).job.id == first.job.id


async def test_the_same_crawl_sent_twice_happens_once(site: WebSite, engine: Engine) -> None:
    site.put_page("/")
    new = NewCrawl(url=site.url + "/")
    first, second = await engine.crawl(new), await engine.crawl(new)
    assert first.id == second.id
    await engine.wait(first.id, 30)


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "example.com", "http://", "file:///etc/passwd", "http://me:secret@example.com/"]
)
async def test_a_url_that_is_not_http_is_refused_at_once(engine: Engine, url: str) -> None:
    with pytest.raises(InvalidParameter, match="Invalid URL"):
        await engine.crawl(NewCrawl(url=url))
    assert (await engine.collections()).total == 0


@pytest.mark.requirement("002.crawler.private")
@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "0xa9fea9fe", "[::1]", "192.168.1.1:8080"])
async def test_a_private_address_is_refused_at_once(engine: Engine, host: str) -> None:
    with pytest.raises(AddressForbidden, match="not a public address"):
        await engine.crawl(NewCrawl(url=f"http://{host}/"))


async def test_an_unknown_collection_is_refused(engine: Engine) -> None:
    with pytest.raises(CollectionNotFound):
        await engine.crawl(NewCrawl(url="https://example.com/", collection="nowhere"))


@pytest.mark.parametrize("pages", [0, 101])
async def test_max_pages_out_of_range_is_refused(engine: Engine, pages: int) -> None:
    with pytest.raises(InvalidParameter, match="max_pages"):
        await engine.crawl(NewCrawl(url="https://example.com/", max_pages=pages))
