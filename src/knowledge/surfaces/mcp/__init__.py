"""MCP over HTTP, WebSocket and stdio. Importing a module here imports the MCP SDK, which takes about a second."""
