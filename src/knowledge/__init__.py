"""The knowledge base that AI agents reach for."""

from importlib.metadata import version

__version__ = version("knowledge-server")
