"""`knowledge jobs`: what is being worked on, what failed, and another try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import Job, JobFilter, JobStatus, Page
from knowledge.surfaces.cli.command import common, examples, pass_session
from knowledge.surfaces.cli.errors import sentence
from knowledge.surfaces.cli.find_document import job_ref
from knowledge.surfaces.cli.output.screen import clean, moment, print_json, print_table, say
from knowledge.surfaces.cli.session import Session

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.json_shapes import TouchedJobsShape


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "knowledge jobs",
        "knowledge jobs --status failed",
        "knowledge jobs --follow",
        "knowledge jobs retry 7",
        "knowledge jobs cancel 8 9",
    ),
)
@click.option("--status", type=click.Choice([status.value for status in JobStatus]), help="Only those that stand so.")
@click.option("--follow", "-f", is_flag=True, help="Stay until none is queued or running.")
@click.option("--page", type=click.IntRange(1), default=1, help="Which page of the list.")
@click.option("--per-page", type=click.IntRange(1, 200), default=20, show_default=True, help="How long a page is.")
@common
@pass_session
@click.pass_context
def jobs(context: click.Context, session: Session, status: str | None, follow: bool, page: int, per_page: int) -> None:
    """List the jobs, newest first, or follow them to their end."""
    if context.invoked_subcommand is not None:
        return
    if follow:
        from knowledge.surfaces.cli.commands.jobs_follow import follow_jobs

        context.exit(follow_jobs(session))
    wanted = JobFilter(status=JobStatus(status) if status else None, page=page, per_page=per_page)
    print_list(session, session.run(lambda engine: engine.jobs(wanted)))


@jobs.command(epilog=examples("knowledge jobs show 7"))
@click.argument("job")
@common
@pass_session
def show(session: Session, job: str) -> None:
    """Show one job, by number or UUID."""
    print_jobs(session, [session.run(lambda engine: engine.job(job_ref(job)))])


@jobs.command(epilog=examples("knowledge jobs retry 7"))
@click.argument("chosen", nargs=-1, required=True, metavar="JOB...")
@common
@pass_session
def retry(session: Session, chosen: tuple[str, ...]) -> None:
    """Queue failed or cancelled jobs again, from their kept originals."""

    async def work(engine: Engine) -> list[Job]:
        return [await engine.retry(job_ref(text)) for text in chosen]

    print_jobs(session, session.run(work))


@jobs.command(epilog=examples("knowledge jobs cancel 8 9"))
@click.argument("chosen", nargs=-1, required=True, metavar="JOB...")
@common
@pass_session
def cancel(session: Session, chosen: tuple[str, ...]) -> None:
    """Stop jobs; what they had done is taken back."""

    async def work(engine: Engine) -> list[Job]:
        return [await engine.cancel(job_ref(text)) for text in chosen]

    print_jobs(session, session.run(work))


def print_list(session: Session, found: Page[Job]) -> None:
    if session.as_json:
        from knowledge.wire import dump_jobs

        print_json(dump_jobs(found))
        return
    if not found.items:
        say("There are no such jobs.")
        return
    print_rows(found.items)
    if found.total > found.page * found.per_page:
        say(f"{len(found.items)} of {found.total}; --page {found.page + 1} shows more.")


def print_jobs(session: Session, found: Sequence[Job]) -> None:
    if session.as_json:
        from knowledge.wire import dump_job

        shape: TouchedJobsShape = {"jobs": [dump_job(job) for job in found]}
        print_json(shape)
    else:
        print_rows(found)


def print_rows(found: Sequence[Job]) -> None:
    rows = [(str(job.id), job.kind.value, job.status.value, share(job), job.filename, news(job)) for job in found]
    print_table(("id", "kind", "status", "done", "name", ""), rows, right=("id", "done"))


def share(job: Job) -> str:
    return f"{job.progress:.0%}"


def news(job: Job) -> str:
    """Why it failed, what it is doing, or when it ended."""
    if job.error is not None:
        return clean(sentence(job.error.message, job.error.hint))
    if not job.status.ended:
        return clean(job.step)
    return "; ".join(map(clean, job.warnings)) or moment(job.completed_at)
