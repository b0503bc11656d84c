"""The progress of a job: one number over all steps that never falls."""

from __future__ import annotations

from uuid import UUID

from knowledge.engine.api import Engine
from knowledge.engine.jobs.progress import ProgressTracker
from knowledge.engine.local import LocalEngine
from knowledge.model import Caller, Job, JobKind, JobStatus, NewNote, now
from knowledge.model.jobs import JobPhase
from tests.support.engines import make_file
from tests.support.watching import watching


def make_job(status: JobStatus = JobStatus.PROCESSING) -> Job:
    return Job(
        id=1, uid=UUID(int=1), kind=JobKind.ADD, owner=0, filename="a.txt", status=status, progress=0.0, step="",
        done=0, total=0, error=None, warnings=(), document_id=None, document_uid=None, chunk_count=0,
        created_at=now(), started_at=None, completed_at=None,
    )  # fmt: skip


def test_progress_does_not_fall_over_steps_and_attempts() -> None:
    tracker = ProgressTracker()
    seen: list[float] = []

    def look() -> None:
        seen.append(tracker.add_progress(make_job()).progress)

    tracker.begin(1)
    for done in (0, 3, 7):
        tracker.report(1, "Processing page", done, 10, JobPhase.READ, "pages")
        look()
    tracker.end(1)  # its child process died, and it is queued again
    look()
    tracker.begin(1)
    tracker.report(1, "Reading", 0, 0, JobPhase.READ)
    look()
    tracker.report(1, "Generating embeddings", 5, 10, JobPhase.EMBED, "chunks")
    look()
    assert tracker.suspend(1)  # another worker goes on
    look()
    tracker.begin(1)
    tracker.report(1, "Generating embeddings", 0, 10, JobPhase.EMBED, "chunks")
    look()
    assert seen == sorted(seen) and 0.0 < seen[0] < seen[2] < seen[5] < 1.0
    found = tracker.add_progress(make_job())
    assert (found.done, found.total, found.unit) == (0, 10, "chunks")


def test_a_job_that_is_retried_begins_again() -> None:
    tracker = ProgressTracker()
    tracker.begin(1)
    tracker.report(1, "Processing page", 9, 10, JobPhase.READ, "pages")
    tracker.end(1)
    tracker.restart(1)
    assert tracker.add_progress(make_job(JobStatus.QUEUED)).progress == 0.0
    tracker.begin(1)
    tracker.report(1, "Processing page", 2, 10, JobPhase.READ, "pages")
    before = tracker.add_progress(make_job()).progress
    tracker.restart(1)  # the signal of another server comes late
    assert tracker.add_progress(make_job()).progress == before > 0.0


async def test_the_progress_that_is_told_of_a_document_never_falls(local: LocalEngine) -> None:
    engine = local.as_caller(Caller())
    text = "\n\n".join(f"# Part {number}\n\n{'tea and milk ' * 60}{number}" for number in range(300))
    async with watching(engine) as reader:
        await reader.read()
        job = await engine.add(make_file("tea.md", text))
        await reader.read_until(
            lambda event: isinstance(event.data, Job) and event.data.id == job.id and event.data.status.has_ended
        )
        told = [event.data.progress for event in reader.seen if isinstance(event.data, Job) and event.data.id == job.id]
    assert told == sorted(told) and told[-1] == 1.0


async def test_an_ended_job_is_complete(engine: Engine) -> None:
    job = await engine.add(NewNote(text="the kettle boils"))
    ended = await engine.wait(job.id, 30)
    assert ended.progress == 1.0
