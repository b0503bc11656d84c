"""Contract 004: a knowledge base for agents on other machines, over an engine that may be elsewhere."""
