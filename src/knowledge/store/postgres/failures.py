"""Translate errors of PostgreSQL and its driver into sentences, and decide which of them are worth a second try."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors as codes
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from knowledge.errors import DatabaseFailed, DiskFull, StorageFailed
from knowledge.store.database import LookAgain

DRIVER_ERRORS = (SQLAlchemyError, psycopg.Error)
"""Errors of SQLAlchemy, its pool and the driver."""
RIGHTS_HINT = (
    "Make the user of KNOWLEDGE_DATABASE_URL the owner of the database, or run"
    " 'GRANT CREATE, USAGE ON SCHEMA public TO USER' in it."
)
_ROLLED_BACK = (codes.SerializationFailure, codes.DeadlockDetected, codes.LockNotAvailable)
"""The transaction was rolled back as a whole, so it may be run again, also when the commit raised this."""
_RACED = (codes.UniqueViolation, codes.ForeignKeyViolation, codes.ExclusionViolation)
"""Another transaction has committed a row between a check and the write that relied on it."""
_CONNECTION_ENDED = (
    codes.AdminShutdown,
    codes.CrashShutdown,
    codes.CannotConnectNow,
    codes.IdleInTransactionSessionTimeout,
    codes.IdleSessionTimeout,
)
_FATAL_PATTERN = re.compile(r"(?:FATAL|ERROR):\s+(.+)")


class ConnectionEnded(psycopg.OperationalError):
    """The server has ended the connection before the commit was sent."""


def find_cause(error: BaseException) -> BaseException:
    """Return the driver's error."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def is_connection_lost(error: BaseException) -> bool:
    cause = find_cause(error)
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    # An error without an SQLSTATE did not come from the server: the connection broke or was never made.
    return isinstance(cause, _CONNECTION_ENDED) or (
        isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError) and cause.sqlstate is None
    )


def is_rolled_back(error: BaseException) -> bool:
    """Return whether the server has rolled back the transaction because of others."""
    return isinstance(find_cause(error), _ROLLED_BACK)


def is_raced(error: BaseException) -> bool:
    """Return whether the write relied on a check that another transaction has made wrong."""
    return isinstance(error, LookAgain) or isinstance(find_cause(error), _RACED)


def wrap_postgres_error(error: BaseException, url: URL) -> StorageFailed:
    """Return the sentence for an error; none of them contains the password."""
    cause = find_cause(error)
    where = describe_server(url)
    reason = _first_line(cause)
    match cause:
        case PoolTimeout():
            return DatabaseFailed(
                f"All connections to PostgreSQL at {where} are in use", hint="Try again in a moment.", reason=reason
            )
        case codes.DiskFull():
            return DiskFull(
                f"The disk of the PostgreSQL server at {where} is full",
                hint="Free space on that disk and try again; acknowledged documents are kept.",
                reason=reason,
            )
        case codes.InsufficientPrivilege():
            message = f"The user '{url.username}' lacks rights in the database '{url.database}': {reason}"
            return DatabaseFailed(message, hint=RIGHTS_HINT, reason=reason)
        case codes.ReadOnlySqlTransaction():
            return DatabaseFailed(
                f"PostgreSQL at {where} is read-only",
                hint="Use the address of the primary server in KNOWLEDGE_DATABASE_URL.",
                reason=reason,
            )
        case codes.LockNotAvailable() | codes.DeadlockDetected() | codes.SerializationFailure():
            return DatabaseFailed(
                "Other writers have held a lock in PostgreSQL for too long", hint="Try again.", reason=reason
            )
        case codes.QueryCanceled():
            return DatabaseFailed("PostgreSQL took too long for a statement", hint="Try again.", reason=reason)
    if is_connection_lost(error) or isinstance(cause, psycopg.OperationalError):
        return _explain_connection(cause, url)
    return DatabaseFailed(f"Database error: {reason}", reason=reason)


def make_unknown_commit_error(url: URL) -> DatabaseFailed:
    return DatabaseFailed(
        f"The connection to PostgreSQL at {describe_server(url)} was lost during a commit, so it is unknown whether"
        " the change was saved",
        hint="Look whether it was, and repeat it otherwise.",
        is_commit_unknown=True,
    )


def describe_server(url: URL) -> str:
    """Return host and port, without user and password."""
    host = url.host or url.query.get("host") or "the local socket"
    return f"{host}:{url.port}" if url.port else str(host)


def _explain_connection(cause: BaseException, url: URL) -> DatabaseFailed:
    text = str(cause)
    where = describe_server(url)
    fatal = _FATAL_PATTERN.search(text)
    if fatal is None:
        reason = _first_line(cause).rpartition("failed: ")[2]  # what is before it repeats the address
        return DatabaseFailed(
            f"PostgreSQL at {where} cannot be reached: {reason}",
            hint="Start it, or correct the host and port in KNOWLEDGE_DATABASE_URL.",
            reason=reason,
        )
    reason = fatal[1].strip()
    return DatabaseFailed(
        f"PostgreSQL at {where} refused the connection: {reason}", hint=_find_connection_hint(reason), reason=reason
    )


def _find_connection_hint(reason: str) -> str:
    """Return what to do about a refused connection; the driver reports these without an error code."""
    if "authentication" in reason or "no password" in reason or "role" in reason:
        return "Correct the user and the password in KNOWLEDGE_DATABASE_URL."
    if "database" in reason and "does not exist" in reason:
        return "Create the database, or correct its name in KNOWLEDGE_DATABASE_URL."
    if "too many" in reason or "connection slots" in reason:
        return "Raise max_connections of PostgreSQL: each server uses up to 32 connections."
    if "pg_hba" in reason:
        return "Allow this machine in pg_hba.conf of the PostgreSQL server."
    return "Try again in a moment."


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
