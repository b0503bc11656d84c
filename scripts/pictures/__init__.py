"""The sample library of `make screenshots`."""
