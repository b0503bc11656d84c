"""Contract 004: tools for agents on other machines; the engine may be a separate server."""
