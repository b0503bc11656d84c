"""What `doctor` asks the engine: whether it opens, how its model and its index are, and what failed."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError
from knowledge.model import Finding, Status
from knowledge.surfaces.cli.checks import Verdict
from knowledge.surfaces.cli.faults import sentence
from knowledge.surfaces.cli.screen import count
from knowledge.surfaces.cli.session import Session

ABOUT = "engine"


def engine(session: Session) -> Iterator[Verdict]:
    settings = session.settings
    if not settings.engine_url and not (settings.data / "knowledge.db").exists():
        yield Verdict(ABOUT, True, "There is nothing to look at yet: 'knowledge add FILE' makes a beginning.")
        return
    try:
        status, findings = session.run(look)
    except KnowledgeError as error:
        yield Verdict(ABOUT, False, sentence(str(error)), error.hint)
        return
    yield from judge(status, findings)


async def look(opened: Engine) -> tuple[Status, list[Finding]]:
    from knowledge.surfaces.cli.readiness import model_ready

    await model_ready(opened)
    return await opened.status(), [finding for finding in await opened.verify() if finding.part == "index"]


def judge(status: Status, findings: list[Finding]) -> Iterator[Verdict]:
    """Sentences about what the engine says of itself."""
    for issue in status.issues:
        yield Verdict(ABOUT, False, sentence(issue), "knowledge verify")
    if findings:
        says = f"The index is behind its log: {count(len(findings), 'document differs', 'documents differ')}."
        yield Verdict("index", False, says, "knowledge reindex")
    else:
        yield Verdict("index", True, "The index holds what the store holds.")
    if status.failed:
        says = f"{count(status.failed, 'job')} failed."
        yield Verdict("jobs", False, says, "knowledge jobs --status failed, then knowledge jobs retry ID")
    if not status.issues:
        yield Verdict(ABOUT, True, f"The engine answers: {count(status.documents, 'document')}.")
