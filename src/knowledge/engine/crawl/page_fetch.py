"""Fetches one page of a crawl: returns a page to ingest, or an outcome with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from knowledge import errors
from knowledge.engine.crawl.html_scan import PageScan, choose_canonical_url
from knowledge.engine.crawl.ingest_page import FetchedPage
from knowledge.engine.crawl.politeness import PoliteClient
from knowledge.engine.crawl.response_content import (
    PLAIN_TEXT_SUFFIXES,
    add_charset_meta,
    charset_of,
    filename_of,
    find_skipped_suffix,
    format_of,
)
from knowledge.engine.crawl.robots import RobotsCache
from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.crawl.urls import (
    canonicalize_url,
    find_excluding_pattern,
    is_crawler_trap,
    is_same_site,
    resolve_link,
)
from knowledge.engine.fetch.client import FetchResponse
from knowledge.errors import KnowledgeError
from knowledge.model import Json, now
from knowledge.model.crawls import CrawledPage, OutcomeReason, PageOutcome
from knowledge.store.crawls.site_pages import SitePage

MAX_REDIRECTS = 10
HTTP_NOT_MODIFIED = 304
HTML_SUFFIX = ".html"

OUTCOME_BY_ERROR: tuple[tuple[type[KnowledgeError], PageOutcome, OutcomeReason], ...] = (
    (errors.AddressForbidden, PageOutcome.SKIPPED, OutcomeReason.FORBIDDEN),
    (errors.TooLarge, PageOutcome.SKIPPED, OutcomeReason.TOO_LARGE),
    (errors.DeadlineExceeded, PageOutcome.FAILED, OutcomeReason.TOO_SLOW),
    (errors.Invalid, PageOutcome.SKIPPED, OutcomeReason.UNSUPPORTED),
    (errors.UnsupportedFormat, PageOutcome.SKIPPED, OutcomeReason.UNSUPPORTED),
    (errors.NoText, PageOutcome.FAILED, OutcomeReason.EMPTY),
    (errors.ParserTooSlow, PageOutcome.FAILED, OutcomeReason.TOO_SLOW),
    (errors.Unreadable, PageOutcome.FAILED, OutcomeReason.UNREADABLE),
    (errors.FetchFailed, PageOutcome.FAILED, OutcomeReason.UNREACHABLE),
)


class PageRenderer(Protocol):
    async def render(self, url: str, max_bytes: int) -> str:
        """Return the HTML of the page after its scripts have run."""


@dataclass(frozen=True, slots=True)
class RedirectResult:
    """The response at the end of a redirect chain."""

    fetched: FetchResponse
    moved_permanently: bool
    """The chain has a 301 or 308 redirect."""

    @property
    def name(self) -> str:
        return canonicalize_url(self.fetched.url)

    @property
    def is_unchanged(self) -> bool:
        return self.fetched.status == HTTP_NOT_MODIFIED


class PageFetcher:
    def __init__(
        self,
        client: PoliteClient,
        robots: RobotsCache,
        reader: SiteReader,
        max_page_bytes: int,
        renderer: PageRenderer | None,
    ) -> None:
        self._client, self._robots, self._max_page_bytes, self._renderer = client, robots, max_page_bytes, renderer
        self.reader = reader

    async def follow_redirects(
        self, url: str, known_page: SitePage | None, site: str | None, exclude: tuple[str, ...]
    ) -> RedirectResult | CrawledPage:
        """Follow redirects, checking each target like the first URL; without a site every host is allowed."""
        seen, moved = [url], False
        while True:
            refusal = await self._find_refusal(url, site, exclude)
            if refusal is not None:
                return refusal
            try:
                fetched = await self._request_page(url, known_page)
            except KnowledgeError as error:
                return outcome_of_error(url, error)
            if fetched.location is None:
                return RedirectResult(fetched, moved)
            target = resolve_link(url, fetched.location)
            if target is None:
                return make_failed(url, OutcomeReason.UNREACHABLE, "Redirects to an invalid or unsupported URL")
            if target in seen or len(seen) > MAX_REDIRECTS:
                detail = f"Redirect loop, or more than {MAX_REDIRECTS} redirects"
                return make_failed(url, OutcomeReason.REDIRECT, detail)
            moved = moved or fetched.status in (301, 308)
            seen.append(target)
            url = target

    async def _find_refusal(self, url: str, site: str | None, exclude: tuple[str, ...]) -> CrawledPage | None:
        if site is not None:
            skipped = check_scope(url, site, exclude)
            if skipped is not None:
                return skipped
        rules = await self._robots.get_rules(url)
        if rules.unreachable is not None:
            return outcome_of_error(url, rules.unreachable)
        refusal = await rules.find_refusal(url)
        return None if refusal is None else make_skipped(url, OutcomeReason.ROBOTS, refusal)

    async def _request_page(self, url: str, known_page: SitePage | None) -> FetchResponse:
        rules = await self._robots.get_rules(url)
        headers: dict[str, str] = {}
        if known_page is not None and known_page.url == url and known_page.document_id is not None:
            if known_page.etag:
                headers["If-None-Match"] = known_page.etag
            if known_page.last_modified:
                headers["If-Modified-Since"] = known_page.last_modified
        return await self._client.get(url, self._max_page_bytes, headers, rules.delay)

    async def fetch_status(self, url: str) -> int | None:
        """Return the HTTP status of a HEAD request; None if robots.txt forbids it or it fails."""
        rules = await self._robots.get_rules(url)
        if await rules.find_refusal(url) is not None:
            return None
        try:
            return (await self._client.head(url, rules.delay)).status
        except KnowledgeError:
            return None

    async def read_page(self, result: RedirectResult) -> tuple[FetchedPage | CrawledPage, tuple[str, ...]]:
        """Return the page to ingest, or why it is left out, and the links to follow."""
        fetched = result.fetched
        failure = check_status(fetched)
        if failure is not None:
            return failure, ()
        suffix = format_of(fetched)
        if suffix is None:
            detail = f"Content type {fetched.content_type or '(none)'} is not supported"
            return make_skipped(fetched.url, OutcomeReason.UNSUPPORTED, detail, fetched.status), ()
        try:
            if suffix == HTML_SUFFIX:
                return await self._read_html(fetched)
            is_text = suffix in PLAIN_TEXT_SUFFIXES
            body = await self.reader.decode_text(fetched.body, charset_of(fetched)) if is_text else fetched.body
        except KnowledgeError as error:
            return outcome_of_error(fetched.url, error), ()
        return _make_fetched_page(fetched, body, suffix, result.name, ()), ()

    async def _read_html(self, fetched: FetchResponse) -> tuple[FetchedPage | CrawledPage, tuple[str, ...]]:
        url, robots_header = fetched.url, fetched.headers.get("x-robots-tag", "")
        scanned = await self.reader.scan_page(fetched.body, url, charset_of(fetched), robots_header)
        scan, body = scanned.scan, add_charset_meta(fetched.body, scanned.charset)
        if scan.needs_script:
            rendered = await self._render_page(url)
            if isinstance(rendered, CrawledPage):
                return rendered, _followable_links(scan)
            body = rendered.encode("utf-8", "replace")
            scan = (await self.reader.scan_page(body, url, "utf-8", robots_header)).scan
        if not scan.may_index:
            return make_skipped(url, OutcomeReason.ROBOTS, "The page has a noindex directive"), _followable_links(scan)
        links = _followable_links(scan)
        return _make_fetched_page(fetched, body, HTML_SUFFIX, choose_canonical_url(scan, url), links), links

    async def _render_page(self, url: str) -> str | CrawledPage:
        if self._renderer is None:
            detail = "The page is rendered by JavaScript; set KNOWLEDGE_CRAWL_BROWSER to render it"
            return make_skipped(url, OutcomeReason.BROWSER, detail)
        try:
            return await self._renderer.render(url, self._max_page_bytes)
        except KnowledgeError as error:
            return make_failed(url, OutcomeReason.BROWSER, f"Rendering failed: {error}")

    async def fetch_file(self, url: str, max_bytes: int) -> FetchResponse:
        """Fetch a sitemap or llms.txt within the rate limit of its host."""
        return await self._client.get(url, max_bytes, delay=(await self._robots.get_rules(url)).delay)

    async def list_sitemaps(self, url: str) -> tuple[str, ...]:
        return (await self._robots.get_rules(url)).sitemaps


def _followable_links(scan: PageScan) -> tuple[str, ...]:
    return scan.links if scan.may_follow else ()


def _make_fetched_page(
    fetched: FetchResponse, body: bytes, suffix: str, name: str, links: tuple[str, ...]
) -> FetchedPage:
    metadata: Json = {"crawled_at": now().strftime("%Y-%m-%dT%H:%M:%SZ"), "links_found": len(links)}
    if "last-modified" in fetched.headers:
        metadata["last_modified"] = fetched.headers["last-modified"]
    return FetchedPage(
        url=fetched.url,
        name=name,
        filename=filename_of(fetched.url, suffix),
        body=body,
        etag=fetched.headers.get("etag"),
        last_modified=fetched.headers.get("last-modified"),
        links=links,
        metadata=metadata,
    )


def make_skipped(url: str, reason: OutcomeReason, detail: str, http_status: int | None = None) -> CrawledPage:
    return CrawledPage(url, PageOutcome.SKIPPED, reason, detail, http_status)


def make_failed(url: str, reason: OutcomeReason, detail: str, http_status: int | None = None) -> CrawledPage:
    return CrawledPage(url, PageOutcome.FAILED, reason, detail, http_status)


def outcome_of_error(url: str, error: KnowledgeError) -> CrawledPage:
    """Map an error to the outcome of the page."""
    for kind, outcome, reason in OUTCOME_BY_ERROR:
        if isinstance(error, kind):
            return CrawledPage(url, outcome, reason, str(error))
    return make_failed(url, OutcomeReason.UNREADABLE, str(error))


def check_scope(url: str, site: str, patterns: tuple[str, ...]) -> CrawledPage | None:
    """Return why a URL is skipped without fetching it: off-site, excluded, a crawler trap or a skipped file type."""
    if not is_same_site(site, url):
        return make_skipped(url, OutcomeReason.OFF_SITE, f"Not on {site}")
    pattern = find_excluding_pattern(url, patterns)
    if pattern is not None:
        return make_skipped(url, OutcomeReason.EXCLUDED, f"Matches the exclude pattern '{pattern}'")
    if is_crawler_trap(url):
        return make_skipped(
            url, OutcomeReason.TRAP, "Looks like a crawler trap: the path repeats itself or is too deep"
        )
    suffix = find_skipped_suffix(url)
    if suffix is not None:
        return make_skipped(url, OutcomeReason.UNSUPPORTED, f"Files named *{suffix} are not crawled")
    return None


def check_status(fetched: FetchResponse) -> CrawledPage | None:
    if 200 <= fetched.status < 300 and fetched.status not in (204, 205):
        return None
    prefix = "The site is busy or limits requests: " if fetched.status in (429, 503) else ""
    return make_failed(fetched.url, OutcomeReason.HTTP_STATUS, f"{prefix}HTTP {fetched.status}", fetched.status)
