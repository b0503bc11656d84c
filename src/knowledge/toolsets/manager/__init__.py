"""Contract 001: what several people share, each seeing their own collections and the corpora they may read."""
