"""Agents that used MCP, and attempts that were refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, select, update

from knowledge.model.accounts import CallerKind
from knowledge.model.agents import Agent, AgentSighting, AgentTransport, NewRefusal, RefusalReason, RefusedAttempt
from knowledge.store import schema
from knowledge.store.accounts.accounts import require_owner
from knowledge.store.database import Database
from knowledge.store.insight.tables import agents, refused_attempts
from knowledge.store.prepared_statements import insert_if_absent
from knowledge.store.row_mapping import make_timestamp, parse_timestamp

A, R, X = agents.c, refused_attempts.c, schema.api_keys.c

KEEP_MICROSECONDS = 7 * 24 * 3600 * 1_000_000
"""How long an agent that does not come back, or a refused attempt, is remembered."""
MAX_AGENTS_PER_OWNER, MAX_REFUSED_ATTEMPTS = 100, 200
MAX_LISTED_REFUSALS = 20
_WITH_KEY_NAME = select(agents, X.name.label("key_name")).join_from(
    agents, schema.api_keys, (X.prefix == A.key_prefix) & (X.account_id == A.owner_id), isouter=True
)


def make_identity(*parts: str) -> bytes:
    """Return a digest of texts, by which equal rows are joined."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]


class AgentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- agents ---------------------------------------------------------------------------------

    def record(self, owner: int, seen: AgentSighting) -> Agent:
        """Count the calls of an agent, and return it."""
        described = {
            "client": seen.client[:120],
            "version": seen.version[:60],
            "transport": seen.transport.value,
            "toolset": seen.toolset[:120],
            "caller": seen.caller.value,
            "key_prefix": seen.key_prefix[:40],
        }
        identity, now = make_identity(*described.values()), make_timestamp()
        own = (A.owner_id == owner) & (A.identity == identity)
        counted: dict[str, Any] = {"calls": A.calls + seen.calls, "last_seen": now}
        if seen.last_tool is not None:
            counted["last_tool"] = seen.last_tool[:80]

        def work(connection: Connection) -> Any:
            require_owner(connection, owner)
            if not connection.execute(update(agents).where(own).values(**counted)).rowcount:
                made = insert_if_absent(agents, connection.dialect.name)  # another server may insert it too
                times = {"first_seen": now, "last_seen": now}
                connection.execute(made.values(owner_id=owner, identity=identity, calls=0, **times, **described))
                connection.execute(update(agents).where(own).values(**counted))
                _forget_oldest(connection, owner)
            return connection.execute(_WITH_KEY_NAME.where(own)).one()

        return _make_agent(self._database.write(work))

    def list_of_owner(self, owner: int) -> list[Agent]:
        """Return the agents of an owner, the last seen first."""
        wanted = _WITH_KEY_NAME.where(A.owner_id == owner, A.last_seen >= make_timestamp() - KEEP_MICROSECONDS)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(A.last_seen.desc(), A.id).limit(MAX_AGENTS_PER_OWNER)).all()
        return [_make_agent(row) for row in rows]

    def list_seen_since(self, time: int, limit: int) -> list[tuple[int, Agent]]:
        """Return the agents of all owners, each with its owner, that were seen at or after a time."""
        wanted = _WITH_KEY_NAME.where(A.last_seen >= time).order_by(A.last_seen.desc()).limit(limit)
        with self._database.read() as connection:
            return [(row.owner_id, _make_agent(row)) for row in connection.execute(wanted)]

    # -- refused attempts -----------------------------------------------------------------------

    def record_refusals(self, refused: Sequence[NewRefusal]) -> None:
        now = make_timestamp()

        def work(connection: Connection) -> None:
            for each in refused:
                _record_refusal(connection, each, now)
            newest = select(R.id).order_by(R.last_at.desc()).limit(MAX_REFUSED_ATTEMPTS)
            connection.execute(delete(refused_attempts).where(R.id.not_in(newest)))

        self._database.write(work)

    def list_refused(self, address: str | None) -> list[RefusedAttempt]:
        """Return the last refused attempts, all or those from one address."""
        return self._read_refused(_of_address(address).where(R.last_at >= make_timestamp() - KEEP_MICROSECONDS))

    def list_refused_since(self, time: int) -> list[RefusedAttempt]:
        return self._read_refused(select(refused_attempts).where(R.last_at >= time))

    def _read_refused(self, wanted: Select[Any]) -> list[RefusedAttempt]:
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(R.last_at.desc()).limit(MAX_LISTED_REFUSALS)).all()
        return [_make_refused(row) for row in rows]

    def forget_old(self) -> None:
        oldest = make_timestamp() - KEEP_MICROSECONDS

        def work(connection: Connection) -> None:
            connection.execute(delete(agents).where(A.last_seen < oldest))
            connection.execute(delete(refused_attempts).where(R.last_at < oldest))

        self._database.write(work)


def delete_agents_of(connection: Connection, owner: int) -> None:
    connection.execute(delete(agents).where(A.owner_id == owner))


def _forget_oldest(connection: Connection, owner: int) -> None:
    newest = select(A.id).where(A.owner_id == owner).order_by(A.last_seen.desc()).limit(MAX_AGENTS_PER_OWNER)
    connection.execute(delete(agents).where(A.owner_id == owner, A.id.not_in(newest)))


def _record_refusal(connection: Connection, new: NewRefusal, now: int) -> None:
    described = {
        "reason": new.reason.value,
        "client": new.client[:120],
        "address": new.address[:60],
        "path": new.path[:120],
        "detail": new.detail[:120],
    }
    identity = make_identity(*described.values())
    counted = update(refused_attempts).where(R.identity == identity)
    counted = counted.values(attempts=R.attempts + new.attempts, last_at=now)
    if not connection.execute(counted).rowcount:
        made = insert_if_absent(refused_attempts, connection.dialect.name)
        connection.execute(made.values(identity=identity, attempts=0, last_at=now, **described))
        connection.execute(counted)


def _of_address(address: str | None) -> Select[Any]:
    wanted = select(refused_attempts)
    return wanted if address is None else wanted.where(R.address == address)


def _make_agent(row: Any) -> Agent:
    return Agent(
        id=row.id,
        client=row.client,
        version=row.version,
        transport=AgentTransport(row.transport),
        toolset=row.toolset,
        caller=CallerKind(row.caller),
        key_name=row.key_name or "",
        first_seen=parse_timestamp(row.first_seen),
        last_seen=parse_timestamp(row.last_seen),
        calls=row.calls,
        last_tool=row.last_tool,
    )


def _make_refused(row: Any) -> RefusedAttempt:
    return RefusedAttempt(
        id=row.id,
        reason=RefusalReason(row.reason),
        client=row.client,
        address=row.address,
        path=row.path,
        detail=row.detail,
        attempts=row.attempts,
        last_at=parse_timestamp(row.last_at),
    )
