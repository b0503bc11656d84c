"""The first schema: a new database is made as a whole, so there is nothing to do."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Databases at this revision exist already."""
