"""Contract 001: private collections and shared corpora for several accounts."""
