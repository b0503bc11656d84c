"""Addresses of pages: how one is written so that it can be fetched, and so that each page has only one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit

from knowledge.model.crawls import LONGEST_URL

PORTS = {"http": 80, "https": 443}
TRACKING = re.compile(
    r"(?i)(utm_\w+|gclid|dclid|fbclid|msclkid|mc_[ce]id|igshid|yclid|_ga|sessionid|phpsessid|jsessionid)"
)
"""Parameters that say who came from where, and never which page this is."""
SESSION = re.compile(r"(?i);jsessionid=[^/?#]*")
INDEX = re.compile(r"(?i)/(index|default)\.(html?|php|aspx?|md)$")
SAFE_PATH = "/:@!$&'()*+,;=-._~%"
SAFE_QUERY = SAFE_PATH + "?[]"
ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
LOOPS = 3
"""So often a part of a path may come again; more is a trap that links to itself."""


def absolute(base: str, link: str) -> str | None:
    """The address that a link on a page leads to, fit to be fetched; None where it leads to no page at all."""
    try:
        parts = urlsplit(urljoin(base, "".join(link.split("\n")).strip().replace("\t", "").replace("\r", "")))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in PORTS or not host or "@" in parts.netloc:
        return None
    name = ascii_host(host)
    if name is None:
        return None
    place = name if port in (None, PORTS[parts.scheme]) else f"{name}:{port}"
    path = without_dots(_escaped(SESSION.sub("", parts.path), SAFE_PATH))
    url = urlunsplit((parts.scheme, place, path, _escaped(parts.query, SAFE_QUERY), ""))
    return url if len(url) <= LONGEST_URL else None


def is_address(url: str) -> bool:
    """Whether this is an address as `absolute` writes them."""
    if len(url) > LONGEST_URL or not url.startswith(("http://", "https://")):
        return False
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False


def ascii_host(host: str) -> str | None:
    """The host as name services know it."""
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    name = name.rstrip(".").lower()
    return name if name and re.fullmatch(r"[a-z0-9_.-]+", name) else None


def without_dots(path: str) -> str:
    """The path with its `.` and `..` walked, never above its root."""
    walked: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            del walked[-1:]
        elif part != ".":
            walked.append(part)
    if parts and parts[-1] in (".", ".."):
        walked.append("")
    return "/" + "/".join(walked)


def _escaped(text: str, safe: str) -> str:
    """Percent signs only where they are needed, and always in the same letters."""
    quoted = quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text), safe=safe)
    return ESCAPE.sub(_plain, quoted)


def _plain(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in UNRESERVED else found[0].upper()


def canonical(url: str) -> str:
    """The one name of a page: no www, no trailing slash, no index file, parameters in order, nothing about visitors."""
    parts = urlsplit(url)
    path = INDEX.sub("/", parts.path).rstrip("/")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(sorted((name, value) for name, value in pairs if not TRACKING.fullmatch(name)))
    return urlunsplit((parts.scheme, bare_host(parts.netloc), path or "/", query, ""))


def bare_host(host: str) -> str:
    return host.removeprefix("www.")


def origin(url: str) -> str:
    """Scheme, host and port: what a robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_of(url: str) -> str:
    return bare_host(urlsplit(url).netloc)


def same_site(site: str, url: str) -> bool:
    """Whether an address belongs to a site, which is a host (with its port), with or without www."""
    return host_of(url) == site


def excluded(url: str, patterns: tuple[str, ...]) -> str | None:
    """The pattern that keeps an address out: a glob where it has a wildcard, else a part of the address."""
    plain = unquote(url)
    path = unquote(urlsplit(url).path)
    for pattern in patterns:
        if any(letter in pattern for letter in "*?["):
            if any(fnmatchcase(place, pattern) for place in (url, plain, path)):
                return pattern
        elif pattern in url or pattern in plain:
            return pattern
    return None


def is_trap(url: str) -> bool:
    """Paths that grow by themselves: the same part again and again."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    return any(parts.count(part) > LOOPS for part in set(parts)) or len(parts) > 30


def markdown_twins(url: str) -> tuple[str, ...]:
    """The pages that a Markdown file beside them repeats, as sites with an llms.txt lay them out."""
    parts = urlsplit(url)
    if not parts.path.endswith(".md"):
        return ()
    stem = parts.path.removesuffix(".md")
    paths = (stem, f"{stem}.html", f"{stem}/")
    return tuple(canonical(urlunsplit((parts.scheme, parts.netloc, path, "", ""))) for path in paths)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which addresses belong to a crawl."""

    site: str
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, url: str, exclude: tuple[str, ...]) -> Scope:
        return cls(host_of(url), exclude)
