"""Contract 003: `tools.py` declares tools, resources and the prompt; `service.py` implements them."""
