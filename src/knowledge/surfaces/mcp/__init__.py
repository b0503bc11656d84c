"""The MCP surface. Importing it imports the SDK, which takes a second: do it only where it is served."""
