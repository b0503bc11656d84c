"""What a crawl has a child process read for it: pages, robots.txt, sitemaps and llms.txt, from sites of any kind.

Each task yields one answer, then addresses by the line, then bytes where there are some; `site_reader` reads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import urljoin

from protego import Protego

from knowledge.engine.crawl.addresses import absolute
from knowledge.engine.crawl.content import text_of, true_charset
from knowledge.engine.crawl.html_scan import look
from knowledge.engine.crawl.sitemaps import (
    MOST_ADDRESSES,
    MOST_UNPACKED,
    is_index,
    linked_pages,
    locations,
)
from knowledge.engine.fetch.bodies import gunzip
from knowledge.extract.process import frames
from knowledge.extract.process.frames import Mark
from knowledge.extract.process.request import Request

LINES_A_FRAME = 200
BYTES_A_FRAME = 1 << 20
MOST_SITEMAPS = 100


def read_page(request: Request) -> Iterator[bytes]:
    body, url, named = request.document.read(), _text(request, "url"), _name(request, "charset")
    sight = look(text_of(body, named), url, _text(request, "wishes"))
    yield frames.dump(
        Mark.ANSWER,
        {
            "canonical": sight.canonical,
            "index": sight.index,
            "follow": sight.follow,
            "scripted": sight.scripted,
            "charset": true_charset(body, named),
        },
    )
    yield from _lines(sight.links)


def rewrite_text(request: Request) -> Iterator[bytes]:
    """A plain text in UTF-8, where only the site knows its encoding; nothing where it can stay as it is."""
    body = request.document.read()
    truth = true_charset(body, _name(request, "charset"))
    yield frames.dump(Mark.ANSWER, {"rewritten": truth not in (None, "utf-8")})
    if truth not in (None, "utf-8"):
        text = body.decode(str(truth)).encode("utf-8", "replace")
        for start in range(0, len(text), BYTES_A_FRAME):
            yield frames.dump_bytes(Mark.DATA, {}, text[start : start + BYTES_A_FRAME])


def read_robots(request: Request) -> Iterator[bytes]:
    """How long to wait between two requests, and where the sitemaps are."""
    said, agent = Protego.parse(_text(request, "text")), _text(request, "agent")
    wanted = [said.crawl_delay(agent)]
    rate = said.request_rate(agent)
    if rate is not None and rate.requests:
        wanted.append(rate.seconds / rate.requests)
    delay = max((float(value) for value in wanted if value), default=None)
    yield frames.dump(Mark.ANSWER, {"delay": delay if delay is not None and math.isfinite(delay) else None})
    found = (absolute(place, place) for place in (urljoin(_text(request, "base"), one) for one in said.sitemaps))
    yield from _lines(list(dict.fromkeys(url for url in found if url))[:MOST_SITEMAPS])


def check_robots(request: Request) -> Iterator[bytes]:
    """Whether a page may be fetched. A rule with many wildcards may take for ever to compare, so this is no lesser risk
    than to read the rules."""
    said = Protego.parse(_text(request, "text"))
    yield frames.dump(Mark.ANSWER, {"allowed": bool(said.can_fetch(_text(request, "url"), _text(request, "agent")))})


def read_sitemap(request: Request) -> Iterator[bytes]:
    data, place = request.document.read(), _text(request, "place")
    if data.startswith(b"\x1f\x8b"):
        data = gunzip(data, MOST_UNPACKED, place)
    text = data.decode("utf-8-sig", "replace")
    yield frames.dump(Mark.ANSWER, {"index": is_index(text)})
    found: dict[str, None] = {}
    for one in locations(text):
        url = absolute(place, one)
        if url is not None:
            found[url] = None
        if len(found) >= MOST_ADDRESSES:
            break
    yield from _lines(found)


def read_llms(request: Request) -> Iterator[bytes]:
    text = request.document.read().decode("utf-8-sig", "replace")
    yield frames.dump(Mark.ANSWER, {})
    yield from _lines(linked_pages(text, _text(request, "place")))


def _lines(urls: Iterable[str]) -> Iterator[bytes]:
    waiting = list(urls)
    for start in range(0, len(waiting), LINES_A_FRAME):
        yield frames.dump(Mark.LINES, {}, "\n".join(waiting[start : start + LINES_A_FRAME]))


def _text(request: Request, name: str) -> str:
    return str(request.arguments[name])


def _name(request: Request, name: str) -> str | None:
    return cast("str | None", request.arguments[name])
