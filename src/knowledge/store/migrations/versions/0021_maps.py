"""Maps of passages, one for each account and collection."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.create_table(
        "maps",
        sa.Column("owner_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("collection_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model_id", sa.Integer, nullable=False),
        sa.Column("newest_content", sa.BigInteger, nullable=False),
        sa.Column("passages", sa.BigInteger, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
