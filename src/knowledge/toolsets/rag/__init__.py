"""Contract 002: sources, documents, three kinds of search, and a crawler."""
