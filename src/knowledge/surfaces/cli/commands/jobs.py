"""`knowledge jobs`: lists, follows, retries and cancels jobs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from knowledge.engine.api import Engine
from knowledge.model import Job, JobFilter, JobStatus, ResultPage
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.document_lookup import parse_job_ref
from knowledge.surfaces.cli.errors import join_sentences
from knowledge.surfaces.cli.output.progress import show_progress
from knowledge.surfaces.cli.output.terminal import (
    format_time,
    pluralize,
    print_json,
    print_message,
    print_table,
    sanitize_text,
)
from knowledge.surfaces.cli.session import CliSession
from knowledge.surfaces.waiting import wait_for_end

if TYPE_CHECKING:
    from knowledge.surfaces.cli.output.json_shapes import TouchedJobsShape


JOBS_PER_PAGE = 200


def follow_jobs(session: CliSession) -> int:
    """Wait for all jobs, print them, and return exit code 1 if one failed."""
    ended = session.run(follow_active_jobs)
    if session.as_json or ended:
        print_jobs(session, ended)
    if not ended:
        print_message("No job is queued or running.")
    failed = [job for job in ended if job.status is JobStatus.FAILED]
    if failed:
        print_message(
            join_sentences(f"{pluralize(len(failed), 'job')} failed", "Retry one with 'knowledge jobs retry ID'.")
        )
    return cli_errors.FAILED if failed else cli_errors.OK


async def follow_active_jobs(engine: Engine) -> list[Job]:
    ended: list[Job] = []
    while active := await list_unfinished(engine):
        with show_progress(len(active)) as display:
            for job in active:
                ended.append(await wait_for_end(engine, job, partial(display.step, job.filename)))
                display.end(job.filename)
    return ended


async def list_unfinished(engine: Engine) -> list[Job]:
    """Return the running jobs, then the queued ones, each oldest first."""
    found: list[Job] = []
    for status in (JobStatus.PROCESSING, JobStatus.QUEUED):
        page = await engine.jobs(JobFilter(status=status, per_page=JOBS_PER_PAGE))
        found += sorted(page.items, key=lambda job: job.id)
    return found


@click.group(
    invoke_without_command=True,
    epilog=format_examples(
        "knowledge jobs",
        "knowledge jobs --status failed",
        "knowledge jobs --follow",
        "knowledge jobs retry 7",
        "knowledge jobs cancel 8 9",
    ),
)
@click.option(
    "--status", type=click.Choice([status.value for status in JobStatus]), help="List jobs with this status only."
)
@click.option("--follow", "-f", is_flag=True, help="Wait until no job is queued or running.")
@click.option("--page", type=click.IntRange(1), default=1, help="Page of the list.")
@click.option("--per-page", type=click.IntRange(1, 200), default=20, show_default=True, help="Entries per page.")
@common_options
@pass_session
@click.pass_context
def jobs(
    context: click.Context, session: CliSession, status: str | None, follow: bool, page: int, per_page: int
) -> None:
    """List jobs, newest first, or wait for them to end."""
    if context.invoked_subcommand is not None:
        return
    if follow:
        context.exit(follow_jobs(session))
    wanted = JobFilter(status=JobStatus(status) if status else None, page=page, per_page=per_page)
    print_job_page(session, session.run(lambda engine: engine.jobs(wanted)))


@jobs.command(epilog=format_examples("knowledge jobs show 7"))
@click.argument("job")
@common_options
@pass_session
def show(session: CliSession, job: str) -> None:
    """Show one job, by id or UUID."""
    print_jobs(session, [session.run(lambda engine: engine.job(parse_job_ref(job)))])


@jobs.command(epilog=format_examples("knowledge jobs retry 7"))
@click.argument("chosen", nargs=-1, required=True, metavar="JOB...")
@common_options
@pass_session
def retry(session: CliSession, chosen: tuple[str, ...]) -> None:
    """Queue failed or cancelled jobs again."""

    async def work(engine: Engine) -> list[Job]:
        return [await engine.retry(parse_job_ref(text)) for text in chosen]

    print_jobs(session, session.run(work))


@jobs.command(epilog=format_examples("knowledge jobs cancel 8 9"))
@click.argument("chosen", nargs=-1, required=True, metavar="JOB...")
@common_options
@pass_session
def cancel(session: CliSession, chosen: tuple[str, ...]) -> None:
    """Cancel jobs and undo their changes."""

    async def work(engine: Engine) -> list[Job]:
        return [await engine.cancel(parse_job_ref(text)) for text in chosen]

    print_jobs(session, session.run(work))


def print_job_page(session: CliSession, found: ResultPage[Job]) -> None:
    if session.as_json:
        from knowledge.wire import JobsShape

        print_json(JobsShape.from_page(found))
        return
    if not found.items:
        print_message("No jobs found.")
        return
    print_job_table(found.items)
    if found.total > found.page * found.per_page:
        print_message(f"{len(found.items)} of {found.total}; --page {found.page + 1} shows more.")


def print_jobs(session: CliSession, found: Sequence[Job]) -> None:
    if session.as_json:
        shape: TouchedJobsShape = {"jobs": [*found]}
        print_json(shape)
    else:
        print_job_table(found)


def print_job_table(found: Sequence[Job]) -> None:
    rows = [
        (str(job.id), job.kind.value, job.status.value, format_progress(job), job.filename, describe_state(job))
        for job in found
    ]
    print_table(("id", "kind", "status", "done", "name", ""), rows, right=("id", "done"))


def format_progress(job: Job) -> str:
    return f"{job.progress:.0%}"


def describe_state(job: Job) -> str:
    """Return the error, the current step, or the warnings or end time of a job."""
    if job.error is not None:
        return sanitize_text(join_sentences(job.error.message, job.error.hint))
    if not job.status.has_ended:
        return sanitize_text(job.step)
    return "; ".join(map(sanitize_text, job.warnings)) or format_time(job.completed_at)
