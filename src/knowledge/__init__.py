"""The knowledge base that AI agents reach for."""

__version__: str


def __getattr__(name: str) -> str:
    """The version, read when somebody asks: a command that does not say it need not look for it."""
    if name != "__version__":
        raise AttributeError(f"module 'knowledge' has no attribute {name!r}")
    from importlib.metadata import version

    return globals().setdefault(name, version("knowledge-server"))  # type: ignore[no-any-return]
