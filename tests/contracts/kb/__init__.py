"""Contract 004, over two processes."""
