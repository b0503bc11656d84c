"""`knowledge crawl`: adds the pages of a web site, with progress and a table of all pages."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError
from knowledge.model import CollectionRef, JobStatus, ReportProgress
from knowledge.model.crawls import MAX_CRAWL_PAGES, Crawl, CrawledPage, NewCrawl, PageOutcome
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.errors import join_sentences
from knowledge.surfaces.cli.output.terminal import pluralize, print_json, print_message, print_table
from knowledge.surfaces.cli.session import CliSession

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.progress import ProgressDisplay

COLLECTIONS_PER_PAGE = 200


@click.command(
    epilog=format_examples(
        "knowledge crawl https://docs.example.org/guide",
        "knowledge crawl https://docs.example.org/ --recursive --max-pages 50",
        "knowledge crawl https://docs.example.org/ -r --exclude /archive/ --exclude '*/tag/*'",
        "knowledge crawl https://docs.example.org/ -r --collection handbook",
    )
)
@click.argument("url")
@click.option("--recursive", "-r", is_flag=True, help="Follow links to other pages of the same site.")
@click.option(
    "--max-pages",
    type=click.IntRange(1, MAX_CRAWL_PAGES),
    default=10,
    show_default=True,
    help="Maximum number of pages.",
)
@click.option("--collection", metavar="NAME", help="Collection for the pages.  [default: one for the site]")
@click.option("--title", help="Title of a new collection.  [default: name of the site]")
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Skip URLs that contain a text or match a glob.")
@click.option("--all", "every", is_flag=True, help="List skipped URLs too.")
@click.option("--no-wait", is_flag=True, help="Return when the crawl is queued.")
@common_options
@pass_session
@click.pass_context
def crawl(
    context: click.Context,
    session: CliSession,
    url: str,
    recursive: bool,
    max_pages: int,
    collection: str | None,
    title: str | None,
    exclude: tuple[str, ...],
    every: bool,
    no_wait: bool,
) -> None:
    """Crawl a web site and add its pages.

    The crawler obeys robots.txt. Crawling a site again updates the same collection: unchanged pages are skipped, and a
    page that is missing in two crawls is removed.
    """
    new = NewCrawl(
        url=url, recursive=recursive, max_pages=max_pages, collection=collection, title=title, exclude=exclude
    )
    report = session.run(lambda engine: run_crawl(engine, new, wait=not no_wait))
    if session.as_json:
        from knowledge.wire import CrawlShape

        print_json(CrawlShape.from_crawl(report))
    elif no_wait:
        print_message(
            f"Job {report.job.id} crawls {report.url}; 'knowledge jobs show {report.job.id}' shows its progress."
        )
    else:
        print_report(report, every)
    context.exit(cli_errors.FAILED if report.job.status in (JobStatus.FAILED, JobStatus.CANCELLED) else cli_errors.OK)


async def run_crawl(engine: Engine, new: NewCrawl, *, wait: bool) -> Crawl:
    """Start a crawl and, with `wait`, wait for its end; Ctrl-C cancels the crawl."""
    from dataclasses import replace

    from knowledge.surfaces.cli.output.progress import show_progress
    from knowledge.surfaces.waiting import wait_for_end

    if new.collection is None:
        new = replace(new, collection=await find_crawled_collection(engine, new.url))
    job = await engine.crawl(new)
    if wait:
        with show_progress(new.max_pages if new.recursive else 1) as display:
            try:
                await wait_for_end(engine, job, report_pages(display))
            except asyncio.CancelledError:
                with suppress(KnowledgeError):
                    await engine.cancel(job.id)
                raise
    return await engine.crawl_report(job.id)


def report_pages(display: ProgressDisplay) -> ReportProgress:
    """Return a progress callback that counts crawled pages and shows the current one."""
    reported = 0

    def report(step: str, done: int, total: int) -> None:
        nonlocal reported
        while reported < min(done, total):
            display.end(step)
            reported += 1
        display.step(step, "", 0, total)

    return report


async def find_crawled_collection(engine: Engine, url: str) -> CollectionRef | None:
    """Return the collection of an earlier crawl of this URL."""
    page = 1
    while True:
        found = await engine.collections(page, COLLECTIONS_PER_PAGE)
        for collection in found.items:
            if collection.source_type == "crawl" and (collection.url or "").rstrip("/") == url.strip().rstrip("/"):
                return collection.id
        if page * COLLECTIONS_PER_PAGE >= found.total:
            return None
        page += 1


def print_report(crawl: Crawl, show_all: bool) -> None:
    """Print the table of pages and a summary."""
    shown = [page for page in crawl.pages if show_all or page.outcome is not PageOutcome.SKIPPED]
    if shown:
        print_table(("", "url", "passages", "reason"), [format_row(page) for page in shown], right=("passages",))
    if not show_all:
        skipped = Counter(str(page.reason) for page in crawl.pages if page.outcome is PageOutcome.SKIPPED)
        for reason, number in skipped.most_common():
            print_message(f"{pluralize(number, 'URL')} skipped: {reason}.")
    if crawl.job.error is not None:
        print_message(join_sentences(crawl.job.error.message, crawl.job.error.hint))
    print_message(format_summary(crawl))


def format_row(page: CrawledPage) -> tuple[str, str, str, str]:
    why = f"{page.reason}: {page.detail}" if page.reason else page.detail
    return page.outcome.value, page.url, str(page.chunk_count or ""), why


def format_summary(crawl: Crawl) -> str:
    counts = crawl.counts
    parts = [
        f"{pluralize(counts.crawled, 'page')} crawled "
        f"({counts.created} new, {counts.updated} changed, {counts.unchanged} unchanged)",
        f"{counts.failed} failed",
        f"{counts.skipped} skipped",
    ]
    if counts.removed:
        parts.append(f"{counts.removed} removed")
    if counts.pending:
        parts.append(f"{counts.pending} found and not crawled")
    where = f" Collection: {crawl.collection.name}." if crawl.collection is not None else ""
    return ", ".join(parts) + "." + where
