"""Entry points of contract 003: the command `sage` and `python -m sage.services.mcp_server`."""
