"""URL normalization for fetching, canonical URLs for deduplication, and crawler trap detection."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit, urlunsplit

from knowledge.model.crawls import MAX_URL_CHARS

DEFAULT_PORTS = {"http": 80, "https": 443}
TRACKING_PARAMETER = re.compile(
    r"(?i)(utm_\w+|gclid|dclid|fbclid|msclkid|mc_[ce]id|igshid|yclid|_ga|sessionid|phpsessid|jsessionid)"
)
"""Tracking and session parameters, which do not identify a page."""
SESSION_ID = re.compile(r"(?i);jsessionid=[^/?#]*")
INDEX_FILE = re.compile(r"(?i)/(index|default)\.(html?|php|aspx?|md)$")
SAFE_PATH = "/:@!$&'()*+,;=-._~%"
SAFE_QUERY = SAFE_PATH + "?[]"
PERCENT_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
UNRESERVED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
MAX_URLS = 5000
"""URLs taken from one sitemap or llms.txt, and from all sitemaps of a site."""
MAX_SEGMENT_REPEATS = 3


def resolve_link(base: str, link: str) -> str | None:
    """Return the absolute, normalized URL of a link (RFC 3986); None if it is not a valid http or https URL."""
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
    netloc = name if port in (None, DEFAULT_PORTS[parts.scheme]) else f"{name}:{port}"
    path = remove_dot_segments(_percent_encode(SESSION_ID.sub("", parts.path), SAFE_PATH))
    url = urlunsplit((parts.scheme, netloc, path, _percent_encode(parts.query, SAFE_QUERY), ""))
    return url if len(url) <= MAX_URL_CHARS else None


def is_normalized_url(url: str) -> bool:
    """Return whether a URL has the form that `resolve_link` returns."""
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
    """Return the host in lower case and IDNA encoding; None if it is not a valid host name."""
    if ":" in host:
        return f"[{host.lower()}]"
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return None
    name = name.rstrip(".").lower()
    return name if name and re.fullmatch(r"[a-z0-9_.-]+", name) else None


def remove_dot_segments(path: str) -> str:
    """Remove `.` and `..` segments from a path (RFC 3986 section 5.2.4)."""
    kept: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    if parts and parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _percent_encode(text: str, safe: str) -> str:
    """Percent-encode unsafe characters, decode unreserved ones, and write escapes in upper case."""
    quoted = quote(re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text), safe=safe)
    return PERCENT_ESCAPE.sub(_decode_unreserved, quoted)


def _decode_unreserved(found: re.Match[str]) -> str:
    letter = chr(int(found[1], 16))
    return letter if letter in UNRESERVED_CHARS else found[0].upper()


def canonicalize_url(url: str) -> str:
    """Return the URL that identifies a page: no www, trailing slash, index file or tracking, parameters sorted."""
    parts = urlsplit(url)
    path = INDEX_FILE.sub("/", parts.path).rstrip("/")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(sorted((name, value) for name, value in pairs if not TRACKING_PARAMETER.fullmatch(name)))
    return urlunsplit((parts.scheme, strip_www(parts.netloc), path or "/", query, ""))


def strip_www(host: str) -> str:
    return host.removeprefix("www.")


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def host_of(url: str) -> str:
    return strip_www(urlsplit(url).netloc)


def is_same_site(site: str, url: str) -> bool:
    """Return whether a URL belongs to a site, which is a host with its port, with or without www."""
    return host_of(url) == site


def find_excluding_pattern(url: str, patterns: tuple[str, ...]) -> str | None:
    """Return the first pattern that matches a URL: a glob if it has a wildcard, otherwise a substring."""
    decoded = unquote(url)
    path = unquote(urlsplit(url).path)
    for pattern in patterns:
        if any(letter in pattern for letter in "*?["):
            if any(fnmatchcase(text, pattern) for text in (url, decoded, path)):
                return pattern
        elif pattern in url or pattern in decoded:
            return pattern
    return None


def is_crawler_trap(url: str) -> bool:
    """Return whether a URL looks like a crawler trap: a segment repeats over three times, or there are over 30."""
    parts = [part for part in urlsplit(url).path.split("/") if part]
    return any(parts.count(part) > MAX_SEGMENT_REPEATS for part in set(parts)) or len(parts) > 30


def list_html_twins(url: str) -> tuple[str, ...]:
    """Return the canonical URLs of the HTML pages that a Markdown file beside them may repeat (see llms.txt)."""
    parts = urlsplit(url)
    if not parts.path.endswith(".md"):
        return ()
    stem = parts.path.removesuffix(".md")
    paths = (stem, f"{stem}.html", f"{stem}/")
    return tuple(canonicalize_url(urlunsplit((parts.scheme, parts.netloc, path, "", ""))) for path in paths)
