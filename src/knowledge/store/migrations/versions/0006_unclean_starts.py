"""Jobs count how often the server ended uncleanly while they were being done."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("unclean_starts", sa.Integer, nullable=False, server_default=sa.text("0")))
