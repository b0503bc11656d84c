"""Source code by structure: tree-sitter finds the definitions of a file, and its lines are divided between them."""
