"""The model that answers questions, and the one that is to follow it while its vectors are made."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from knowledge.embed.embedder import Embedder
from knowledge.embed.loading import ModelLoader
from knowledge.errors import InvalidParameter
from knowledge.model import ModelStatus, NextModel
from knowledge.store.models import ModelStore, StoredModel

NO_MODEL = "none"
DEFAULT_MODEL = "default"

OpenModel = Callable[[str], ModelLoader]
"""From what a setting says to a model that is not yet loaded."""


class EmbeddingModels:
    """Whoever needs a model asks here, each time anew: it may be another one by then."""

    def __init__(self, open_model: OpenModel, store: ModelStore, configured: str | None) -> None:
        """`wanted` is what the setting says, if it says anything; what the folder has chosen outranks it."""
        self._open_model, self._store, self._configured = open_model, store, configured
        chosen = NO_MODEL if configured == NO_MODEL else store.get_spec() or configured or DEFAULT_MODEL
        self.serving = open_model(chosen)
        following = store.get_next_spec()
        self.next = open_model(following) if following and chosen != NO_MODEL else None
        self.passages_left: int | None = None
        """How many passages wait for a vector of the next model, once they have been counted."""
        self.vectors_missing = threading.Event()
        """Set when vectors may be missing: a model is to follow, or a document came in under one that is gone."""
        self._retired: list[ModelLoader] = []

    def start(self) -> None:
        for model in self._all_models():
            model.start()

    def close(self) -> None:
        for model in (*self._retired, *self._all_models()):
            model.close()

    def find_embedder(self, stored: StoredModel | None) -> Embedder | None:
        """The loaded model that made these vectors: no other may be asked about them."""
        for model in self._all_models():
            embedder = model.embedder
            if embedder is not None and stored is not None and embedder.fingerprint == stored.fingerprint:
                return embedder
        return None

    def switch_to(self, spec: str) -> None:
        """Have another model follow; one that cannot be loaded is refused, and nothing has changed then."""
        if spec == NO_MODEL:
            raise InvalidParameter(
                "'none' is no model to make vectors with",
                hint="Start the server with KNOWLEDGE_EMBEDDING=none to search by words alone.",
                parameter="model",
            )
        model = self._open_model(spec)
        model.start()
        try:
            model.wait_for_embedder()
        except BaseException:
            model.close()
            raise
        self._store.set_next_spec(spec)
        if self.next is not None:
            self._retired.append(self.next)
        self.passages_left, self.next = None, model
        self.vectors_missing.set()

    @contextmanager
    def track_job(self) -> Iterator[None]:
        """While a document is read; if another model has taken over meanwhile, its vectors are of the wrong one."""
        before = self.serving.embedder
        try:
            yield
        finally:
            if self.serving.embedder is not before:
                self.vectors_missing.set()

    def swap_models(self) -> None:
        """The next model is the one that answers now. The old one may still be in the hands of a job."""
        assert self.next is not None
        self._retired.append(self.serving)
        self.serving, self.next, self.passages_left = self.next, None, None

    def status(self) -> ModelStatus:
        following = self.next
        coming = NextModel(following.name, self.passages_left, following.error) if following else None
        return self.serving.status(coming)

    def list_issues(self) -> list[str]:
        found = [model.error for model in self._all_models() if model.error]
        used = self.serving.choice.spec
        if self._configured not in (None, used, self.next.choice.spec if self.next else None):
            found.append(
                f"KNOWLEDGE_EMBEDDING names {self._configured}, but this data folder was made with {used}, "
                f"which is used; 'knowledge reindex --model {self._configured}' changes it."
            )
        return found

    def _all_models(self) -> tuple[ModelLoader, ...]:
        return (self.serving,) if self.next is None else (self.serving, self.next)
