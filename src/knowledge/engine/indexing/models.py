"""The model that answers questions, and the one that is to follow it while its vectors are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from knowledge.embed.base import Embedder
from knowledge.embed.loading import Model
from knowledge.errors import InvalidParameter
from knowledge.model import ModelStatus, NextModel
from knowledge.store.models import ModelStore, StoredModel

NONE = "none"
DEFAULT = "default"

OpenModel = Callable[[str], Model]
"""From what a setting says to a model that is not yet loaded."""


class Models:
    """Whoever needs a model asks here, each time anew: it may be another one by then."""

    def __init__(self, open_model: OpenModel, store: ModelStore, wanted: str | None) -> None:
        """`wanted` is what the setting says, if it says anything; what the folder has chosen outranks it."""
        self._open, self._store, self._wanted = open_model, store, wanted
        chosen = NONE if wanted == NONE else store.choice() or wanted or DEFAULT
        self.serving = open_model(chosen)
        following = store.following()
        self.next = open_model(following) if following and chosen != NONE else None
        self.left: int | None = None
        """How many passages wait for a vector of the next model, once they have been counted."""
        self.news = threading.Event()
        """Set when vectors may be missing: a model is to follow, or a document came in under one that is gone."""
        self._retired: list[Model] = []

    def start(self) -> None:
        for model in self._all():
            model.start()

    def close(self) -> None:
        for model in (*self._retired, *self._all()):
            model.close()

    def maker(self, stored: StoredModel | None) -> Embedder | None:
        """The loaded model that made these vectors: no other may be asked about them."""
        for embedder in (model.ready() for model in self._all()):
            if embedder is not None and stored is not None and embedder.fingerprint == stored.fingerprint:
                return embedder
        return None

    def follow_with(self, spec: str) -> None:
        """Have another model follow; one that cannot be loaded is refused, and nothing has changed then."""
        if spec == NONE:
            raise InvalidParameter(
                "'none' is no model to make vectors with",
                hint="Start the server with KNOWLEDGE_EMBEDDING=none to search by words alone.",
                parameter="model",
            )
        model = self._open(spec)
        model.start()
        try:
            model.wait()
        except BaseException:
            model.close()
            raise
        self._store.follow_with(spec)
        if self.next is not None:
            self._retired.append(self.next)
        self.left, self.next = None, model
        self.news.set()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a document is read; if another model has taken over meanwhile, its vectors are of the wrong one."""
        before = self.serving.ready()
        try:
            yield
        finally:
            if self.serving.ready() is not before:
                self.news.set()

    def swap(self) -> None:
        """The next model is the one that answers now. The old one may still be in the hands of a job."""
        assert self.next is not None
        self._retired.append(self.serving)
        self.serving, self.next, self.left = self.next, None, None

    def status(self) -> ModelStatus:
        following = self.next
        coming = NextModel(following.name, self.left, following.error) if following else None
        return self.serving.status(coming)

    def issues(self) -> list[str]:
        found = [model.error for model in self._all() if model.error]
        used = self.serving.choice.spec
        if self._wanted not in (None, used, self.next.choice.spec if self.next else None):
            found.append(
                f"KNOWLEDGE_EMBEDDING names {self._wanted}, but this data folder was made with {used}, which is used; "
                f"'knowledge reindex --model {self._wanted}' changes it."
            )
        return found

    def _all(self) -> tuple[Model, ...]:
        return (self.serving,) if self.next is None else (self.serving, self.next)
