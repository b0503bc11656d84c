"""`knowledge jobs --follow`: tells the end of every job that is queued or running, until there is none."""

from __future__ import annotations

from functools import partial

from knowledge.engine.api import Engine
from knowledge.model import Job, JobFilter, JobStatus
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.errors import sentence
from knowledge.surfaces.cli.output.progress import progress_of
from knowledge.surfaces.cli.output.screen import count, say
from knowledge.surfaces.cli.session import Session
from knowledge.surfaces.cli.wait import end_of

PER_PAGE = 200


def follow_jobs(session: Session) -> int:
    """Follow them all; 1 if one of them failed."""
    from knowledge.surfaces.cli.commands.jobs import print_jobs

    ended = session.run(follow)
    if session.as_json or ended:
        print_jobs(session, ended)
    if not ended:
        say("No job is queued or running.")
    failed = [job for job in ended if job.status is JobStatus.FAILED]
    if failed:
        say(sentence(f"{count(len(failed), 'job')} failed", "'knowledge jobs retry ID' tries one again."))
    return cli_errors.FAILED if failed else cli_errors.OK


async def follow(engine: Engine) -> list[Job]:
    ended: list[Job] = []
    while active := await unfinished(engine):
        with progress_of(len(active)) as display:
            for job in active:
                ended.append(await end_of(engine, job, partial(display.step, job.filename)))
                display.end(job.filename)
    return ended


async def unfinished(engine: Engine) -> list[Job]:
    """Those that run before those that wait, each the oldest first."""
    found: list[Job] = []
    for status in (JobStatus.PROCESSING, JobStatus.QUEUED):
        page = await engine.jobs(JobFilter(status=status, per_page=PER_PAGE))
        found += sorted(page.items, key=lambda job: job.id)
    return found
