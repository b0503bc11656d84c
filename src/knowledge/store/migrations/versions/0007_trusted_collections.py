"""Collections that their owners trust, and the account that added each document."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("collections", sa.Column("trusted", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("documents", sa.Column("added_by", sa.BigInteger))
    # The job of an older document may be gone; then nobody is named.
    op.execute(
        "UPDATE documents SET added_by = (SELECT jobs.owner_id FROM jobs WHERE jobs.id = (SELECT max(latest.id)"
        " FROM jobs AS latest WHERE latest.document_id = documents.id AND latest.kind IN ('add', 'update')))"
    )
