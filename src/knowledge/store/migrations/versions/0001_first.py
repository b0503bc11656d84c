"""The first schema; new databases are created without migrations, so there is nothing to do."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Databases at this revision exist already."""
