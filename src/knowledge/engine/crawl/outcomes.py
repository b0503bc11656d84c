"""What is said of an address that brought no document, in one reason and one sentence."""

from __future__ import annotations

from knowledge import errors
from knowledge.engine.crawl.addresses import excluded, is_trap, same_site
from knowledge.engine.crawl.content import never_read
from knowledge.engine.fetch.client import Fetched
from knowledge.errors import KnowledgeError
from knowledge.model import JobError
from knowledge.model.crawls import CrawledPage, Outcome, Reason

TROUBLES: tuple[tuple[type[KnowledgeError], Outcome, Reason], ...] = (
    (errors.AddressForbidden, Outcome.SKIPPED, Reason.FORBIDDEN),
    (errors.TooLarge, Outcome.SKIPPED, Reason.TOO_LARGE),
    (errors.DeadlineExceeded, Outcome.FAILED, Reason.TOO_SLOW),
    (errors.Invalid, Outcome.SKIPPED, Reason.UNSUPPORTED),
    (errors.UnsupportedFormat, Outcome.SKIPPED, Reason.UNSUPPORTED),
    (errors.NoText, Outcome.FAILED, Reason.EMPTY),
    (errors.ParserTooSlow, Outcome.FAILED, Reason.TOO_SLOW),
    (errors.Unreadable, Outcome.FAILED, Reason.UNREADABLE),
    (errors.FetchFailed, Outcome.FAILED, Reason.UNREACHABLE),
)


def skipped(url: str, reason: Reason, detail: str, http_status: int | None = None) -> CrawledPage:
    return CrawledPage(url, Outcome.SKIPPED, reason, detail, http_status)


def failed(url: str, reason: Reason, detail: str, http_status: int | None = None) -> CrawledPage:
    return CrawledPage(url, Outcome.FAILED, reason, detail, http_status)


def trouble(url: str, error: KnowledgeError) -> CrawledPage:
    """What an error means for the page that it happened to."""
    for kind, outcome, reason in TROUBLES:
        if isinstance(error, kind):
            return CrawledPage(url, outcome, reason, str(error))
    return failed(url, Reason.UNREADABLE, str(error))


def job_trouble(url: str, error: JobError) -> CrawledPage:
    kind = errors.BY_CODE.get(error.code, errors.Internal)
    return trouble(url, kind(error.message, hint=error.hint, **error.details))


def out_of_scope(url: str, site: str, patterns: tuple[str, ...]) -> CrawledPage | None:
    """Why an address is not worth a visit, as far as the address itself tells."""
    if not same_site(site, url):
        return skipped(url, Reason.OFF_SITE, f"It lies outside {site}")
    pattern = excluded(url, patterns)
    if pattern is not None:
        return skipped(url, Reason.EXCLUDED, f"It matches '{pattern}'")
    if is_trap(url):
        return skipped(url, Reason.TRAP, "Its path repeats itself")
    suffix = never_read(url)
    if suffix is not None:
        return skipped(url, Reason.UNSUPPORTED, f"Files named *{suffix} are not crawled")
    return None


def bad_status(fetched: Fetched) -> CrawledPage | None:
    if 200 <= fetched.status < 300 and fetched.status not in (204, 205):
        return None
    said = "The site is busy and asks to come back later: " if fetched.status in (429, 503) else ""
    return failed(fetched.url, Reason.HTTP_STATUS, f"{said}HTTP {fetched.status}", fetched.status)
