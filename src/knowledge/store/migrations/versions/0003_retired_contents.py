"""Contents reference their document and the change that replaced them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("contents", sa.Column("document_id", sa.BigInteger))
    op.add_column("contents", sa.Column("retired_seq", sa.BigInteger))
    op.create_index("ix_contents_document_id", "contents", ["document_id"])
    op.create_index("ix_contents_retired_seq", "contents", ["retired_seq"])
    op.execute("UPDATE contents SET document_id = (SELECT id FROM documents WHERE documents.content_id = contents.id)")
