"""Contract 002: sources, documents, search and a web crawler."""
