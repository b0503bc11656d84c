"""The reason why an admin has declined to approve a corpus, which its owner sees."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("curations", sa.Column("declined", sa.Text))
