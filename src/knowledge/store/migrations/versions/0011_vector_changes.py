"""Changes of which the index needs only the vectors."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("changes", sa.Column("vectors_only", sa.Boolean, nullable=False, server_default=sa.false()))
