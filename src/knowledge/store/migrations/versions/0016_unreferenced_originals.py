"""Since when originals in a bucket are not needed."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "unreferenced_originals",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_unreferenced_originals_since", "unreferenced_originals", ["since"])
