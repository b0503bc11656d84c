"""What `doctor` asks the engine: whether it opens, how its model and its index are, and what failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from knowledge.engine.api import Engine
from knowledge.errors import Forbidden, KnowledgeError
from knowledge.model import Status
from knowledge.surfaces.cli.doctor.checks import Verdict, open_sides
from knowledge.surfaces.cli.errors import sentence
from knowledge.surfaces.cli.output.screen import count
from knowledge.surfaces.cli.session import Session

ABOUT = "engine"


def engine(session: Session) -> Iterator[Verdict]:
    settings = session.settings
    if not settings.engine_url and not (settings.data / "knowledge.db").exists():
        yield Verdict(ABOUT, True, "There is nothing to look at yet: 'knowledge add FILE' makes a beginning.")
        yield from open_sides(settings, accounts=False)
        return
    try:
        status, accounts = session.run(look)
    except KnowledgeError as error:
        yield Verdict(ABOUT, False, sentence(str(error)), error.hint)
        return
    yield from judge(status)
    if not settings.engine_url:  # the server that is elsewhere has its own settings
        yield from open_sides(settings, accounts=accounts)


async def look(opened: Engine) -> tuple[Status, bool]:
    """How the engine is, and whether there are accounts; those of an engine elsewhere may be hidden from us."""
    from knowledge.surfaces.cli.readiness import model_ready

    await model_ready(opened)
    status = await opened.status()
    with suppress(Forbidden):
        return status, bool(await opened.accounts())
    return status, False


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
