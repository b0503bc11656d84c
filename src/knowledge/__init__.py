"""Knowledge Server from Python: `open_engine` opens a knowledge base (docs/how-to/use-from-python.md).

The names in `__all__`, their parameters and the fields of their results follow semantic versioning: they change
incompatibly only with the major version, before 1.0 with the minor version. All other names and modules are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge.errors import KnowledgeError
    from knowledge.model import Chunk, Document, Hit
    from knowledge.surfaces.python import KnowledgeBase, open_engine
    from knowledge.version import __version__

__all__ = ["Chunk", "Document", "Hit", "KnowledgeBase", "KnowledgeError", "__version__", "open_engine"]

_MODULES = {
    "Chunk": "knowledge.model",
    "Document": "knowledge.model",
    "Hit": "knowledge.model",
    "KnowledgeBase": "knowledge.surfaces.python",
    "KnowledgeError": "knowledge.errors",
    "__version__": "knowledge.version",
    "open_engine": "knowledge.surfaces.python",
}


if not TYPE_CHECKING:  # a module with `__getattr__` has every attribute for a type checker

    def __getattr__(name: str) -> object:
        """Import a public name at its first use, so that `import knowledge` and the command line start quickly."""
        if name not in _MODULES:
            raise AttributeError(f"module 'knowledge' has no attribute {name!r}")
        from importlib import import_module

        return globals().setdefault(name, getattr(import_module(_MODULES[name]), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
