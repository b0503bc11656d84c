"""Contract 003. `tools.py` has what clients see, `service.py` what it does."""
