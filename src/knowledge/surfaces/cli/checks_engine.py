"""What `doctor` asks the engine: whether it opens, how its model and its index are, and what failed."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge.engine.api import Engine
from knowledge.errors import KnowledgeError
from knowledge.model import Status
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
        status = session.run(look)
    except KnowledgeError as error:
        yield Verdict(ABOUT, False, sentence(str(error)), error.hint)
        return
    yield from judge(status)


async def look(opened: Engine) -> Status:
    from knowledge.surfaces.cli.readiness import model_ready

    await model_ready(opened)
    return await opened.status()


def judge(status: Status) -> Iterator[Verdict]:
    """Sentences about what the engine says of itself."""
    for issue in status.issues:
        yield Verdict(ABOUT, False, sentence(issue), "knowledge verify")
    if status.index_ok:
        yield Verdict("index", True, "The index follows its log; 'knowledge verify' proves that nothing is missing.")
    else:
        yield Verdict("index", False, "The index is behind its log.", "knowledge reindex")
    if status.failed:
        says = f"{count(status.failed, 'job')} failed; 'knowledge jobs --status failed' tells why."
        yield Verdict("jobs", True, says)  # a file that cannot be read is no fault of the installation
    if not status.issues:
        yield Verdict(ABOUT, True, f"The engine answers: {count(status.documents, 'document')}.")
