"""The oldest program that can work with this schema, so that servers can be upgraded one by one."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "schema_compatibility",
        sa.Column("version", sa.String(32), primary_key=True),
        sa.Column("compatible_from", sa.String(32), nullable=False),
    )
