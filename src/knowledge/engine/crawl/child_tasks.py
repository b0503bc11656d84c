"""Tasks of the crawler's sandboxed child process: parse pages, robots.txt, sitemaps and llms.txt.

Each task yields an ANSWER frame, then URLs in LINES frames, then bytes in DATA frames; `site_reader` receives them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast

from protego import Protego

from knowledge.engine.crawl.html_scan import scan_page
from knowledge.engine.crawl.response_content import decode_page, find_charset_override, transcode_to_utf8
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
    body, url, charset = request.document.read(), _text_argument(request, "url"), _optional_argument(request, "charset")
    scan = scan_page(decode_page(body, charset), url, _text_argument(request, "robots_header"))
    yield frames.dump_frame(
        FrameKind.ANSWER,
        {
            "canonical": scan.canonical,
            "index": scan.may_index,
            "follow": scan.may_follow,
            "scripted": scan.needs_script,
            "charset": find_charset_override(body, charset),
        },
    )
    yield from _dump_urls(scan.links)


def rewrite_text(request: TaskRequest) -> Iterator[bytes]:
    """Send a plain text in UTF-8 if its HTTP charset is needed to decode it."""
    text = transcode_to_utf8(request.document.read(), _optional_argument(request, "charset"))
    yield frames.dump_frame(FrameKind.ANSWER, {"rewritten": text is not None})
    if text is not None:
        for start in range(0, len(text), BYTES_PER_FRAME):
            yield frames.dump_bytes_frame(FrameKind.DATA, {}, text[start : start + BYTES_PER_FRAME])


def read_robots(request: TaskRequest) -> Iterator[bytes]:
    """Send the crawl delay and the sitemap URLs of a robots.txt."""
    robots, agent = Protego.parse(_text_argument(request, "text")), _text_argument(request, "agent")
    delays = [robots.crawl_delay(agent)]
    rate = robots.request_rate(agent)
    if rate is not None and rate.requests:
        delays.append(rate.seconds / rate.requests)
    delay = max((float(value) for value in delays if value), default=None)
    yield frames.dump_frame(FrameKind.ANSWER, {"delay": delay if delay is not None and math.isfinite(delay) else None})
    base_url = _text_argument(request, "base")
    sitemaps = (resolve_link(base_url, sitemap) for sitemap in robots.sitemaps)
    yield from _dump_urls(list(dict.fromkeys(url for url in sitemaps if url))[:MAX_SITEMAPS])


def check_robots(request: TaskRequest) -> Iterator[bytes]:
    """Send whether robots.txt allows a URL; in a child, because rules with many wildcards can take very long."""
    robots = Protego.parse(_text_argument(request, "text"))
    yield frames.dump_frame(
        FrameKind.ANSWER,
        {"allowed": bool(robots.can_fetch(_text_argument(request, "url"), _text_argument(request, "agent")))},
    )


def read_sitemap(request: TaskRequest) -> Iterator[bytes]:
    data, base_url = request.document.read(), _text_argument(request, "base_url")
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data, MAX_UNPACKED_BYTES, base_url)
    text = data.decode("utf-8-sig", "replace")
    yield frames.dump_frame(FrameKind.ANSWER, {"index": is_sitemap_index(text)})
    found: dict[str, None] = {}
    for location in iter_locations(text):
        url = resolve_link(base_url, location)
        if url is not None:
            found[url] = None
        if len(found) >= MAX_URLS:
            break
    yield from _dump_urls(found)


def read_llms(request: TaskRequest) -> Iterator[bytes]:
    text = request.document.read().decode("utf-8-sig", "replace")
    yield frames.dump_frame(FrameKind.ANSWER, {})
    yield from _dump_urls(find_markdown_links(text, _text_argument(request, "base_url")))


def _dump_urls(urls: Iterable[str]) -> Iterator[bytes]:
    waiting = list(urls)
    for start in range(0, len(waiting), LINES_PER_FRAME):
        yield frames.dump_frame(FrameKind.LINES, {}, "\n".join(waiting[start : start + LINES_PER_FRAME]))


def _text_argument(request: TaskRequest, name: str) -> str:
    return str(request.arguments[name])


def _optional_argument(request: TaskRequest, name: str) -> str | None:
    return cast("str | None", request.arguments[name])
