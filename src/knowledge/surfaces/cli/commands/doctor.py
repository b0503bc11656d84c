"""`knowledge doctor`: checks the installation and prints every problem with its fix."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from knowledge.config import Settings
from knowledge.engine.api import Engine
from knowledge.errors import Forbidden, KnowledgeError
from knowledge.model import EngineStatus
from knowledge.surfaces.cli import errors as cli_errors
from knowledge.surfaces.cli.common_options import common_options, format_examples, pass_session
from knowledge.surfaces.cli.errors import join_sentences
from knowledge.surfaces.cli.output.terminal import (
    format_size,
    pluralize,
    print_json,
    print_message,
    print_output,
    style_text,
)
from knowledge.surfaces.cli.session import CliSession

CHECK_NAME = "engine"

DISTRIBUTION = "knowledge-server"
SUPPORTED_PYTHONS = ((3, 11), (3, 13))
MIN_FREE_BYTES, LOW_FREE_BYTES = 200 << 20, 1 << 30
MAX_CLOCK_SKEW_SECONDS = 120
SANDBOX_HINT = "Unset KNOWLEDGE_SANDBOX, unless this is a test."
EARLIEST_PLAUSIBLE_TIME = 1_735_689_600  # 1 January 2025, before the first release


@click.command(epilog=format_examples("knowledge doctor", "knowledge doctor --data ~/other --json"))
@common_options
@pass_session
@click.pass_context
def doctor(context: click.Context, session: CliSession) -> None:
    """Check this installation and print every problem with its fix.

    The exit code is 1 if there is a problem.
    """
    results = list(run_checks(session))
    wrong = [result for result in results if not result.ok]
    warnings = sum(result.warning for result in results)
    if session.as_json:
        print_json({"healthy": not wrong, "checks": [asdict(result) for result in results]})
    else:
        for result in results:
            print_check_result(result)
        print_message(format_conclusion(len(wrong), warnings))
    context.exit(cli_errors.FAILED if wrong else cli_errors.OK)


def run_checks(session: CliSession) -> Iterable[CheckResult]:
    settings = session.settings
    yield from check_versions()
    yield from check_clock(settings)
    yield from check_keys(settings)
    if settings.engine_url:  # the other checks are about the remote engine's machine
        yield from check_engine(session)
        return
    for check in (check_disk_space, check_model, check_parsing, check_port):
        yield from check(settings)
    storage = [*check_data_folder(settings), *check_database(settings)]
    yield from storage
    if all(result.ok for result in storage):  # otherwise opening the engine repeats the same problem
        yield from check_engine(session)


def format_conclusion(wrong: int, warnings: int) -> str:
    if wrong:
        return f"Found {pluralize(wrong, 'problem')}."
    return f"No problems found, {pluralize(warnings, 'warning')}." if warnings else "No problems found."


def print_check_result(result: CheckResult) -> None:
    if not result.ok:
        mark = style_text("wrong  ", "bold red")
    else:
        mark = style_text("warning ", "yellow") if result.warning else style_text("ok     ", "green")
    print_output(mark.append_text(style_text(f"{result.about}: {result.says}")))
    if result.mend and (result.warning or not result.ok):
        print_output(style_text(f"       → {result.mend}", "yellow"))


def check_engine(session: CliSession) -> Iterator[CheckResult]:
    settings = session.settings
    is_new = settings.database_url is None and not (settings.data / "knowledge.db").exists()
    if not settings.engine_url and is_new:
        yield CheckResult(CHECK_NAME, True, "There is no data yet; add a document with 'knowledge add FILE'.")
        yield from check_open_surfaces(settings, accounts=False)
        return
    try:
        status, accounts = session.run(read_status)
    except KnowledgeError as error:
        yield CheckResult(CHECK_NAME, False, join_sentences(str(error)), error.hint)
        return
    yield from check_status(status)
    if not settings.engine_url:  # a remote server has its own settings
        yield from check_open_surfaces(settings, accounts=accounts)


async def read_status(opened: Engine) -> tuple[EngineStatus, bool]:
    """Return the status of the engine and whether there are accounts; False if a remote engine does not show them."""
    from knowledge.surfaces.waiting import wait_for_model

    await wait_for_model(opened)
    status = await opened.status()
    with suppress(Forbidden):
        return status, bool(await opened.accounts.list_all())
    return status, False


def check_status(status: EngineStatus) -> Iterator[CheckResult]:
    """Check the status of the engine: issues, index and failed jobs."""
    for issue in status.issues:
        yield CheckResult(CHECK_NAME, False, join_sentences(issue), "knowledge verify")
    if status.index_ok:
        yield CheckResult(
            "index", True, "The index is up to date with the change log; 'knowledge verify' checks its contents."
        )
    else:
        yield CheckResult("index", False, "The index is behind the change log.", "knowledge reindex")
    if status.failed:
        says = f"{pluralize(status.failed, 'job')} failed; 'knowledge jobs --status failed' shows the reasons."
        yield CheckResult("jobs", True, says)  # an unreadable file is not a problem of the installation
    if not status.issues:
        yield CheckResult(CHECK_NAME, True, f"The engine answers: {pluralize(status.documents, 'document')}.")


@dataclass(frozen=True, slots=True)
class CheckResult:
    about: str
    ok: bool
    says: str
    mend: str = ""
    """The fix: a command or an instruction."""
    warning: bool = False
    """Whether the operator should look at it although it works."""


def check_versions() -> Iterator[CheckResult]:
    """Check the versions of Python and of all dependencies."""
    running = sys.version_info[:2]
    named = f"Python {running[0]}.{running[1]}"
    if SUPPORTED_PYTHONS[0] <= running <= SUPPORTED_PYTHONS[1]:
        yield CheckResult("versions", True, f"{named} is supported.")
    else:
        yield CheckResult("versions", False, f"{named} is not supported.", "Use Python 3.11, 3.12 or 3.13.")
    wrong = list(find_wrong_packages())
    for says in wrong:
        yield CheckResult("versions", False, says, f"pip install --upgrade --force-reinstall {DISTRIBUTION}")
    if not wrong:
        yield CheckResult("versions", True, "All packages have a supported version.")


def find_wrong_packages() -> Iterator[str]:
    from packaging.requirements import Requirement

    try:
        listed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # not installed, run from the source tree
        return
    for needed in map(Requirement, listed):
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(needed.name)
        except importlib.metadata.PackageNotFoundError:
            yield f"The package {needed.name} is not installed."
            continue
        if not needed.specifier.contains(found, prereleases=True):
            yield f"The package {needed.name} has version {found}, but {needed.specifier} is required."


def check_data_folder(settings: Settings) -> Iterator[CheckResult]:
    """Check that the data folder can be read and written."""
    data = settings.data
    place = find_existing_parent(data)
    if data.exists() and not data.is_dir():
        yield CheckResult("data folder", False, f"{data} is not a folder.", "Choose another folder with --data.")
    elif not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        mend = f"chmod u+rwx '{place}', or choose another folder with --data"
        yield CheckResult("data folder", False, f"Permission denied: cannot write to {place}.", mend)
    elif not data.exists():
        yield CheckResult("data folder", True, f"{data} does not exist yet; adding the first document creates it.")
    elif problem := find_write_problem(data):
        yield CheckResult(
            "data folder", False, f"Cannot write to {data}: {problem}.", "Choose another folder with --data."
        )
    else:
        yield CheckResult("data folder", True, f"{data} is readable and writable.")


def find_existing_parent(path: Path) -> Path:
    return next(place for place in (path, *path.parents) if place.exists())


def find_write_problem(data: Path) -> str | None:
    """Return why no file can be created in a folder; a read-only file system shows only when writing."""
    try:
        with tempfile.NamedTemporaryFile(dir=data, prefix="doctor-") as file:
            file.write(b"x")
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_disk_space(settings: Settings) -> Iterator[CheckResult]:
    free = shutil.disk_usage(find_existing_parent(settings.data)).free
    says = f"{format_size(free)} free on the disk of the data folder."
    mend = "Free some space, or move the data folder and pass it with --data."
    yield CheckResult("disk", free >= MIN_FREE_BYTES, says if free >= LOW_FREE_BYTES else f"Only {says}", mend)


def check_clock(settings: Settings) -> Iterator[CheckResult]:
    """Check that the clock is not before 2025 or before the last change of the database."""
    mend = "Set the clock, for example with NTP; new documents would get wrong dates."
    now = time.time()
    newest = find_newest_change(settings.data)
    if now < EARLIEST_PLAUSIBLE_TIME:
        yield CheckResult("clock", False, f"The clock is at {time.strftime('%Y-%m-%d', time.gmtime(now))}.", mend)
    elif newest is not None and newest > now + MAX_CLOCK_SKEW_SECONDS:
        yield CheckResult("clock", False, "The clock is behind the last change of the database.", mend)
    else:
        yield CheckResult("clock", True, "The clock is plausible.")


def find_newest_change(data: Path) -> float | None:
    """Return the modification time of the database."""
    times = [path.stat().st_mtime for path in data.glob("knowledge.db*")]
    return max(times, default=None)


def check_database(settings: Settings) -> Iterator[CheckResult]:
    """Check the integrity and the schema version of the database."""
    if settings.database_url is not None:
        yield check_postgres(settings.database_url.get_secret_value())
        return
    from knowledge.store.integrity import ReadError, inspect_quickly
    from knowledge.store.migrate import SCHEMA_VERSION

    path = settings.data / "knowledge.db"
    if not path.exists():
        yield CheckResult("database", True, "There is no database yet; adding the first document creates it.")
        return
    try:
        found, whole = inspect_quickly(path)
    except ReadError as error:
        restore = "knowledge restore BACKUP --data DIR"
        yield CheckResult("database", False, join_sentences(f"The database cannot be read: {error}"), restore)
        return
    if found is not None and found > SCHEMA_VERSION:
        says = f"The database was created by a newer version (schema {found}; this version supports {SCHEMA_VERSION})."
        yield CheckResult("database", False, says, f"pip install --upgrade {DISTRIBUTION}")
    if whole != "ok":
        yield CheckResult(
            "database",
            False,
            join_sentences(f"The database is damaged: {whole}"),
            "knowledge restore BACKUP --data DIR",
        )
    elif found is None or found <= SCHEMA_VERSION:
        yield CheckResult("database", True, "The database passes its integrity check.")


def check_postgres(url: str) -> CheckResult:
    """Check that the PostgreSQL database can be opened: address, password, version, rights and schema."""
    from knowledge.engine.data_folder import open_postgres

    try:
        database = open_postgres(url)
        try:
            says = f"{database.product} answers, and its schema is up to date ({format_size(database.size_bytes())})."
        finally:
            database.close()
    except KnowledgeError as error:
        return CheckResult("database", False, join_sentences(str(error)), error.hint)
    return CheckResult("database", True, says)


def check_port(settings: Settings) -> Iterator[CheckResult]:
    """Check that the server's port is free or used by a knowledge server."""
    where = f"{settings.host}:{settings.port}"
    try:
        info = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(info[0], info[1]) as probe:
            if sys.platform != "win32":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(info[4])
    except OSError as error:
        if is_our_server(settings):
            yield CheckResult("port", True, f"A knowledge server is running on {where}.")
            return
        says = join_sentences(f"The server cannot listen on {where}: {error.strerror or error}")
        yield CheckResult("port", False, says, "knowledge serve --port 0, or another free port")
        return
    yield CheckResult("port", True, f"The server's port {where} is free.")


def is_our_server(settings: Settings) -> bool:
    import httpx

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    try:
        answer = httpx.get(f"http://{host}:{settings.port}/health", timeout=3, trust_env=False).json()
    except (httpx.HTTPError, ValueError):
        return False
    return isinstance(answer, dict) and answer.get("status") in ("healthy", "degraded", "starting")


def check_keys(settings: Settings) -> Iterator[CheckResult]:
    """Warn about short keys; with a remote engine KB_API_KEY is only sent and not checked here."""
    from knowledge.surfaces.http.exposure import find_short_keys

    checked = settings.model_copy(update={"api_key": None}) if settings.engine_url else settings
    for exposure in find_short_keys(checked):
        yield CheckResult("keys", True, exposure.message, exposure.fix, warning=True)


def check_open_surfaces(settings: Settings, *, accounts: bool) -> Iterator[CheckResult]:
    """Warn about a surface without a key if the other one or an account has one."""
    from knowledge.surfaces.http.exposure import find_open_surfaces

    for exposure in find_open_surfaces(settings, accounts=accounts):
        yield CheckResult("access", True, exposure.message, exposure.fix, warning=True)


def check_model(settings: Settings) -> Iterator[CheckResult]:
    """Check the checksum of the default model and say which arithmetic it uses."""
    from knowledge.embed import model_file
    from knowledge.embed.cpu_features import has_fast_int8

    if settings.embedding != "default":
        yield CheckResult("model", True, f"KNOWLEDGE_EMBEDDING selects the model {settings.embedding}.")
        return
    try:
        model_file.read_model_file(model_file.find_model_file())
    except KnowledgeError as error:
        yield CheckResult("model", False, join_sentences(str(error)), error.hint)
        return
    yield CheckResult("model", True, "The checksum of the embedding model is correct.")
    uses_int8 = settings.int8 == "on" or (settings.int8 == "auto" and has_fast_int8())
    processor = "has" if has_fast_int8() else "lacks"
    yield CheckResult(
        "arithmetic",
        True,
        f"The embedding model computes in {'int8' if uses_int8 else 'float32'}: KNOWLEDGE_INT8 is {settings.int8}, and "
        f"this processor {processor} fast products of 8-bit integers (VNNI, AMX or dot product).",
    )


def check_parsing(settings: Settings) -> Iterator[CheckResult]:
    """Check that a document can be read in a child process."""
    from knowledge.app import build_parsers
    from knowledge.extract.base import Source

    with tempfile.TemporaryDirectory(prefix="knowledge-doctor-") as folder:
        sample = Path(folder) / "sample.txt"
        sample.write_text("The doctor can read.", "utf-8")
        try:
            with build_parsers(settings) as reader, reader.parse(Source(sample, sample.name)) as parsing:
                text = "".join(page.text for page in parsing)
                missing = parsing.missing_protections
        except KnowledgeError as error:
            yield CheckResult("reading", False, join_sentences(f"Documents cannot be read: {error}"), error.hint)
            return
    yield CheckResult("reading", "doctor can read" in text, "Documents can be read in a child process.")
    yield check_sandbox(missing)


def check_sandbox(missing: dict[str, str]) -> CheckResult:
    """Check which sandbox protections the child process that read a document had."""
    reasons = "; ".join(missing.values())
    if not missing:
        return CheckResult("sandbox", True, "Documents are read in a sandbox with Landlock and seccomp.")
    if "platform" in missing:
        says = f"Documents are read with limits on time and memory but without a sandbox: {reasons}."
        return CheckResult("sandbox", True, says)
    if "sandbox" in missing:
        return CheckResult(
            "sandbox", False, join_sentences(f"Documents are read without a sandbox: {reasons}"), SANDBOX_HINT
        )
    if "seccomp" in missing:
        says = f"Documents are read without a sandbox: {reasons}."
        return CheckResult("sandbox", False, says, "Use Linux on x86-64 or ARM64, and a container that allows seccomp.")
    says = f"The sandbox has seccomp but no Landlock, so parsers may read other files of this user: {reasons}."
    return CheckResult("sandbox", True, says)
