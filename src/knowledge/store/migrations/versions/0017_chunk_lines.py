"""Lines of chunks of source code."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("first_line", sa.Integer))
    op.add_column("chunks", sa.Column("last_line", sa.Integer))
