"""Addresses of pages: how one is written so that it can be fetched, and so that each page has only one."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit

from knowledge.model.crawls import MAX_URL_CHARS

DEFAULT_PORTS = {"http": 80, "https": 443}
TRACKING_PARAMETER = re.compile(
    r"(?i)(utm_\w+|gclid|dclid|fbclid|msclkid|mc_[ce]id|igshid|yclid|_ga|sessionid|phpsessid|jsessionid)"
)
"""Parameters that say who came from where, and never which page this is."""
SESSION_ID = re.compile(r"(?i);jsessionid=[^/?#]*")
INDEX_FILE = re.compile(r"(?i)/(index|default)\.(html?|php|aspx?|md)$")
SAFE_PATH = "/:@!$&'()*+,;=-._~%"
SAFE_QUERY = SAFE_PATH + "?[]"
PERCENT_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
UNRESERVED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
MAX_URLS = 5000
"""So many addresses are taken from the sitemaps and lists of a site."""
MAX_SEGMENT_REPEATS = 3
"""So often a part of a path may come again; more is a trap that links to itself."""


def resolve_link(base: str, link: str) -> str | None:
    """The address that a link on a page leads to, fit to be fetched; None where it leads to no page at all."""
    try:
        parts = urlsplit(urljoin(base, "".join(link.split("\n")).strip().replace("\t", "").replace("\r", "")))
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme not in DEFAULT_PORTS or not host or "@" in parts.netloc:
        return None
    name = encode_host(host)
    if name is None:
        return None
    place = name if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{name}:{port}"
    path = remove_dot_segments(_percent_encode(SESSION_ID.sub("", parts.path), SAFE_PATH))
    url = urlunsplit((parts.scheme, place, path, _percent_encode(parts.query, SAFE_QUERY), ""))
    return url if len(url) <= MAX_URL_CHARS else None


def is_normalized_url(url: str) -> bool:
    """Whether this is an address as `absolute` writes them."""
    if len(url) > MAX_URL_CHARS or not url.startswith(("http://", "https://")):
        return False
    if not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False


def encode_host(host: str) -> str | None:
    """The host as name services know it."""
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    name = name.rstrip(".").lower()
    return name if name and re.fullmatch(r"[a-z0-9_.-]+", name) else None


def remove_dot_segments(path: str) -> str:
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


def _percent_encode(text: str, safe: str) -> str:
    """Percent signs only where they are needed, and always in the same letters."""
    quoted = quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text), safe=safe)
    return PERCENT_ESCAPE.sub(_decode_unreserved, quoted)


def _decode_unreserved(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in UNRESERVED_CHARS else found[0].upper()


def canonicalize_url(url: str) -> str:
    """The one name of a page: no www, no trailing slash, no index file, parameters in order, nothing about visitors."""
    parts = urlsplit(url)
    path = INDEX_FILE.sub("/", parts.path).rstrip("/")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(sorted((name, value) for name, value in pairs if not TRACKING_PARAMETER.fullmatch(name)))
    return urlunsplit((parts.scheme, strip_www(parts.netloc), path or "/", query, ""))


def strip_www(host: str) -> str:
    return host.removeprefix("www.")


def origin_of(url: str) -> str:
    """Scheme, host and port: what a robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_of(url: str) -> str:
    return strip_www(urlsplit(url).netloc)


def is_same_site(site: str, url: str) -> bool:
    """Whether an address belongs to a site, which is a host (with its port), with or without www."""
    return host_of(url) == site


def find_excluding_pattern(url: str, patterns: tuple[str, ...]) -> str | None:
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


def is_crawler_trap(url: str) -> bool:
    """Whether a URL looks like a crawler trap: a path segment repeats more than three times, or there are over 30."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    return any(parts.count(part) > MAX_SEGMENT_REPEATS for part in set(parts)) or len(parts) > 30


def list_html_twins(url: str) -> tuple[str, ...]:
    """The pages that a Markdown file beside them repeats, as sites with an llms.txt lay them out."""
    parts = urlsplit(url)
    if not parts.path.endswith(".md"):
        return ()
    stem = parts.path.removesuffix(".md")
    paths = (stem, f"{stem}.html", f"{stem}/")
    return tuple(canonicalize_url(urlunsplit((parts.scheme, parts.netloc, path, "", ""))) for path in paths)
