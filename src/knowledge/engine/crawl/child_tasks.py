"""What a crawl has a child process read for it: pages, robots.txt, sitemaps and llms.txt, from sites of any kind.

Each task yields one answer, then addresses by the line, then bytes where there are some; `site_reader` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import urljoin

from protego import Protego

from knowledge.engine.crawl.html_scan import scan_page
from knowledge.engine.crawl.response_content import decode_page, find_charset_override
from knowledge.engine.crawl.sitemaps import MAX_UNPACKED_BYTES, find_markdown_links, is_sitemap_index, iter_locations
from knowledge.engine.crawl.urls import MAX_URLS, resolve_link
from knowledge.engine.fetch.bodies import gunzip
from knowledge.extract.process import frames
from knowledge.extract.process.frames import FrameKind
from knowledge.extract.process.request import TaskRequest

LINES_PER_FRAME = 200
BYTES_PER_FRAME = 1 << 20
MAX_SITEMAPS = 100


def read_page(request: TaskRequest) -> Iterator[bytes]:
    body, url, named = request.document.read(), _text_argument(request, "url"), _optional_argument(request, "charset")
    sight = scan_page(decode_page(body, named), url, _text_argument(request, "wishes"))
    yield frames.dump_frame(
        FrameKind.ANSWER,
        {
            "canonical": sight.canonical,
            "index": sight.may_index,
            "follow": sight.may_follow,
            "scripted": sight.needs_script,
            "charset": find_charset_override(body, named),
        },
    )
    yield from _dump_urls(sight.links)


def rewrite_text(request: TaskRequest) -> Iterator[bytes]:
    """A plain text in UTF-8, where only the site knows its encoding; nothing where it can stay as it is."""
    body = request.document.read()
    truth = find_charset_override(body, _optional_argument(request, "charset"))
    yield frames.dump_frame(FrameKind.ANSWER, {"rewritten": truth not in (None, "utf-8")})
    if truth not in (None, "utf-8"):
        text = body.decode(str(truth)).encode("utf-8", "replace")
        for start in range(0, len(text), BYTES_PER_FRAME):
            yield frames.dump_bytes_frame(FrameKind.DATA, {}, text[start : start + BYTES_PER_FRAME])


def read_robots(request: TaskRequest) -> Iterator[bytes]:
    """How long to wait between two requests, and where the sitemaps are."""
    said, agent = Protego.parse(_text_argument(request, "text")), _text_argument(request, "agent")
    wanted = [said.crawl_delay(agent)]
    rate = said.request_rate(agent)
    if rate is not None and rate.requests:
        wanted.append(rate.seconds / rate.requests)
    delay = max((float(value) for value in wanted if value), default=None)
    yield frames.dump_frame(FrameKind.ANSWER, {"delay": delay if delay is not None and math.isfinite(delay) else None})
    found = (
        resolve_link(place, place) for place in (urljoin(_text_argument(request, "base"), one) for one in said.sitemaps)
    )
    yield from _dump_urls(list(dict.fromkeys(url for url in found if url))[:MAX_SITEMAPS])


def check_robots(request: TaskRequest) -> Iterator[bytes]:
    """Whether a page may be fetched. A rule with many wildcards may take for ever to compare, so this is no lesser risk
    than to read the rules."""
    said = Protego.parse(_text_argument(request, "text"))
    yield frames.dump_frame(
        FrameKind.ANSWER,
        {"allowed": bool(said.can_fetch(_text_argument(request, "url"), _text_argument(request, "agent")))},
    )


def read_sitemap(request: TaskRequest) -> Iterator[bytes]:
    data, place = request.document.read(), _text_argument(request, "place")
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data, MAX_UNPACKED_BYTES, place)
    text = data.decode("utf-8-sig", "replace")
    yield frames.dump_frame(FrameKind.ANSWER, {"index": is_sitemap_index(text)})
    found: dict[str, None] = {}
    for one in iter_locations(text):
        url = resolve_link(place, one)
        if url is not None:
            found[url] = None
        if len(found) >= MAX_URLS:
            break
    yield from _dump_urls(found)


def read_llms(request: TaskRequest) -> Iterator[bytes]:
    text = request.document.read().decode("utf-8-sig", "replace")
    yield frames.dump_frame(FrameKind.ANSWER, {})
    yield from _dump_urls(find_markdown_links(text, _text_argument(request, "place")))


def _dump_urls(urls: Iterable[str]) -> Iterator[bytes]:
    waiting = list(urls)
    for start in range(0, len(waiting), LINES_PER_FRAME):
        yield frames.dump_frame(FrameKind.LINES, {}, "\n".join(waiting[start : start + LINES_PER_FRAME]))


def _text_argument(request: TaskRequest, name: str) -> str:
    return str(request.arguments[name])


def _optional_argument(request: TaskRequest, name: str) -> str | None:
    return cast("str | None", request.arguments[name])
