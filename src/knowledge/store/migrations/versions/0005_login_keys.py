"""Login keys are told apart and expire; a job's uid is unique for its owner."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

DAYS = 90
"""How long a key from before this migration stays valid, from now on."""
MICROSECONDS_PER_DAY = 86_400_000_000


def upgrade() -> None:
    # Until now nothing but its name told a login's key, and none of them expired; a key that somebody made by hand,
    # named 'login' and gave no end cannot be told from one, and is treated like it.
    op.add_column("api_keys", sa.Column("is_login", sa.Boolean, nullable=False, server_default=sa.false()))
    until = time.time_ns() // 1000 + DAYS * MICROSECONDS_PER_DAY
    keys = sa.table("api_keys", sa.column("name"), sa.column("is_login"), sa.column("expires_at"))
    mine = (keys.c.name == "login") & keys.c.expires_at.is_(None)
    op.execute(keys.update().where(mine).values(is_login=sa.true(), expires_at=until))

    last = _last_number("jobs")
    with op.batch_alter_table("jobs", table_kwargs={"sqlite_autoincrement": True}) as jobs:
        jobs.drop_constraint("uq_jobs_uid", type_="unique")
        jobs.create_unique_constraint("uq_jobs_owner_id_uid", ["owner_id", "uid"])
    _keep_last_number("jobs", last)


def _last_number(table: str) -> int | None:
    """The highest number that SQLite has ever given in a table, which is built anew; other databases keep theirs."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return None
    query = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    return connection.execute(query, {"name": table}).scalar()


def _keep_last_number(table: str, last: int | None) -> None:
    """A number is never given twice, also where the newest row is gone."""
    if last is None:
        return
    connection = op.get_bind()
    connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": table})
    connection.execute(sa.text("INSERT INTO sqlite_sequence VALUES (:name, :last)"), {"name": table, "last": last})
