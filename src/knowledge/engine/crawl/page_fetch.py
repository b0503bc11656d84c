"""One visit: from an address to a page that can be taken in, or to the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from knowledge.engine.crawl import outcomes
from knowledge.engine.crawl.addresses import absolute, canonical
from knowledge.engine.crawl.content import PLAIN, charset_of, filename_of, format_of, marked_with
from knowledge.engine.crawl.html_scan import Sight, known_as
from knowledge.engine.crawl.ingest_page import Found
from knowledge.engine.crawl.politeness import Asker
from knowledge.engine.crawl.robots import RobotsBook
from knowledge.engine.crawl.site_reader import SiteReader
from knowledge.engine.fetch.client import Fetched
from knowledge.errors import KnowledgeError
from knowledge.model import Json, now
from knowledge.model.crawls import CrawledPage, Reason
from knowledge.store.crawls.site_pages import SitePage

MOST_HOPS = 10
UNCHANGED = 304
HTML = ".html"


class Renderer(Protocol):
    async def render(self, url: str, most: int) -> str:
        """The page as it stands when its scripts have run."""


@dataclass(frozen=True, slots=True)
class Landing:
    """Where an address led in the end."""

    fetched: Fetched
    moved: bool
    """By a redirect that is meant for good."""

    @property
    def name(self) -> str:
        return canonical(self.fetched.url)

    @property
    def unchanged(self) -> bool:
        return self.fetched.status == UNCHANGED


class Visitor:
    """Knows how to come by pages; which ones, and what becomes of them, is its caller's business."""

    def __init__(
        self, asker: Asker, robots: RobotsBook, reader: SiteReader, most: int, renderer: Renderer | None
    ) -> None:
        self._asker, self._robots, self._most, self._renderer = asker, robots, most, renderer
        self.reader = reader

    async def land(
        self, url: str, memory: SitePage | None, site: str | None, exclude: tuple[str, ...]
    ) -> Landing | CrawledPage:
        """Follow an address to its page. Each hop is judged like the first; without a site any host will do."""
        seen, moved = [url], False
        while True:
            refusal = await self._refused(url, site, exclude)
            if refusal is not None:
                return refusal
            try:
                fetched = await self._ask(url, memory)
            except KnowledgeError as error:
                return outcomes.trouble(url, error)
            if fetched.location is None:
                return Landing(fetched, moved)
            target = absolute(url, fetched.location)
            if target is None:
                return outcomes.failed(url, Reason.UNREACHABLE, "It leads to an address that is no web page")
            if target in seen or len(seen) > MOST_HOPS:
                return outcomes.failed(url, Reason.REDIRECT, "Its redirects lead in a circle or never end")
            moved = moved or fetched.status in (301, 308)
            seen.append(target)
            url = target

    async def _refused(self, url: str, site: str | None, exclude: tuple[str, ...]) -> CrawledPage | None:
        if site is not None:
            outside = outcomes.out_of_scope(url, site, exclude)
            if outside is not None:
                return outside
        rules = await self._robots.rules(url)
        if rules.unreachable is not None:
            return outcomes.trouble(url, rules.unreachable)
        why = await rules.refuse(url)
        return None if why is None else outcomes.skipped(url, Reason.ROBOTS, why)

    async def _ask(self, url: str, memory: SitePage | None) -> Fetched:
        rules = await self._robots.rules(url)
        headers: dict[str, str] = {}
        if memory is not None and memory.url == url and memory.document_id is not None:
            if memory.etag:
                headers["If-None-Match"] = memory.etag
            if memory.last_modified:
                headers["If-Modified-Since"] = memory.last_modified
        return await self._asker.get(url, self._most, headers, rules.delay)

    async def still_there(self, url: str) -> int | None:
        """The status of a page, asked for without its content; None when the site does not say."""
        rules = await self._robots.rules(url)
        if await rules.refuse(url) is not None:
            return None
        try:
            return (await self._asker.head(url, rules.delay)).status
        except KnowledgeError:
            return None

    async def read(self, landing: Landing) -> tuple[Found | CrawledPage, tuple[str, ...]]:
        """What can be taken in of a page, and where it leads."""
        fetched = landing.fetched
        bad = outcomes.bad_status(fetched)
        if bad is not None:
            return bad, ()
        suffix = format_of(fetched)
        if suffix is None:
            kind = fetched.content_type or "of no type"
            return outcomes.skipped(fetched.url, Reason.UNSUPPORTED, f"It is {kind}", fetched.status), ()
        try:
            if suffix == HTML:
                return await self._read_page(fetched)
            plain = suffix in PLAIN
            body = await self.reader.plain_text(fetched.body, charset_of(fetched)) if plain else fetched.body
        except KnowledgeError as error:
            return outcomes.trouble(fetched.url, error), ()
        return _found(fetched, body, suffix, landing.name, ()), ()

    async def _read_page(self, fetched: Fetched) -> tuple[Found | CrawledPage, tuple[str, ...]]:
        named, url, wishes = charset_of(fetched), fetched.url, fetched.headers.get("x-robots-tag", "")
        seen = await self.reader.page(fetched.body, url, named, wishes)
        sight, body = seen.sight, marked_with(fetched.body, seen.charset)
        if sight.scripted:
            rendered = await self._render(url)
            if isinstance(rendered, CrawledPage):
                return rendered, _links(sight)
            body = rendered.encode("utf-8", "replace")
            sight = (await self.reader.page(body, url, "utf-8", wishes)).sight
        if not sight.index:
            return outcomes.skipped(url, Reason.ROBOTS, "The page asks not to be indexed"), _links(sight)
        links = _links(sight)
        return _found(fetched, body, HTML, known_as(sight, url), links), links

    async def _render(self, url: str) -> str | CrawledPage:
        if self._renderer is None:
            detail = "Its text is written by a script; set KNOWLEDGE_CRAWL_BROWSER to have it rendered"
            return outcomes.skipped(url, Reason.BROWSER, detail)
        try:
            return await self._renderer.render(url, self._most)
        except KnowledgeError as error:
            return outcomes.failed(url, Reason.BROWSER, f"It could not be rendered: {error}")

    async def get(self, url: str, most: int) -> Fetched:
        """Something that is no page, at the pace that its host wants."""
        return await self._asker.get(url, most, delay=(await self._robots.rules(url)).delay)

    async def sitemaps(self, url: str) -> tuple[str, ...]:
        return (await self._robots.rules(url)).sitemaps


def _links(sight: Sight) -> tuple[str, ...]:
    return sight.links if sight.follow else ()


def _found(fetched: Fetched, body: bytes, suffix: str, name: str, links: tuple[str, ...]) -> Found:
    metadata: Json = {"crawled_at": now().strftime("%Y-%m-%dT%H:%M:%SZ"), "links_found": len(links)}
    if "last-modified" in fetched.headers:
        metadata["last_modified"] = fetched.headers["last-modified"]
    return Found(
        url=fetched.url,
        name=name,
        filename=filename_of(fetched.url, suffix),
        body=body,
        etag=fetched.headers.get("etag"),
        last_modified=fetched.headers.get("last-modified"),
        links=links,
        metadata=metadata,
    )
