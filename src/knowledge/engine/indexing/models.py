"""The serving embedding model, and the next one while its vectors are backfilled."""

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
"""Makes the loader for a model spec, without loading the model."""


class EmbeddingModels:
    """Holds the model loaders; callers must not keep a loader, because a reindex replaces it."""

    def __init__(self, open_model: OpenModel, store: ModelStore, configured: str | None) -> None:
        """`configured` is KNOWLEDGE_EMBEDDING; the model stored in the data folder takes precedence over it."""
        self._open_model, self._store, self._configured = open_model, store, configured
        chosen = NO_MODEL if configured == NO_MODEL else store.get_spec() or configured or DEFAULT_MODEL
        self.serving = open_model(chosen)
        following = store.get_next_spec()
        self.next = open_model(following) if following and chosen != NO_MODEL else None
        self.chunks_left: int | None = None
        """Chunks without a vector of the next model; None until they are counted."""
        self.vectors_missing = threading.Event()
        """Set if vectors may be missing: a next model was chosen, or a job used a model that has been replaced."""
        self._retired: list[ModelLoader] = []
        self._choice_lock = threading.Lock()
        """Held while the next model is chosen here and stored, or read from the store."""

    def start(self) -> None:
        for model in self._all_models():
            model.start()

    def close(self) -> None:
        for model in (*self._retired, *self._all_models()):
            model.close()

    def find_embedder(self, stored: StoredModel | None) -> Embedder | None:
        """Return the loaded embedder that made these vectors; vectors of different models cannot be compared."""
        for model in self._all_models():
            embedder = model.embedder
            if embedder is not None and stored is not None and embedder.fingerprint == stored.fingerprint:
                return embedder
        return None

    def switch_to(self, spec: str) -> None:
        """Load a model and make it the next one; if loading fails, nothing changes."""
        if spec == NO_MODEL:
            raise InvalidParameter(
                "'none' is not an embedding model",
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
        with self._choice_lock:
            self._store.set_next_spec(spec)
            if self.next is not None:
                self._retired.append(self.next)
            self.chunks_left, self.next = None, model
        self.vectors_missing.set()

    def follow_spec(self) -> None:
        """Load the model that was chosen on another server."""
        if self.serving.choice.kind == NO_MODEL:
            return
        with self._choice_lock:
            self._follow_stored_spec()

    def _follow_stored_spec(self) -> None:
        wanted = self._store.get_next_spec() or self._store.get_spec()
        known = self.next or self.serving
        if wanted is None or wanted == known.choice.spec:
            return
        if self.next is not None:
            self._retired.append(self.next)
            self.next = None
        if wanted != self.serving.choice.spec:
            model = self._open_model(wanted)
            model.start()
            self.chunks_left, self.next = None, model

    @contextmanager
    def track_job(self) -> Iterator[None]:
        """Watch for a model swap while a job runs, which leaves its document with vectors of the old model."""
        before = self.serving.embedder
        try:
            yield
        finally:
            if self.serving.embedder is not before:
                self.vectors_missing.set()

    def swap_models(self) -> None:
        """Make the next model the serving one."""
        assert self.next is not None
        self._retired.append(self.serving)  # closed later, because a running job may still use it
        self.serving, self.next, self.chunks_left = self.next, None, None

    def status(self) -> ModelStatus:
        model = self.next
        next_model = NextModel(model.name, self.chunks_left, model.error) if model else None
        return self.serving.status(next_model)

    def list_issues(self) -> list[str]:
        found = [model.error for model in self._all_models() if model.error]
        used = self.serving.choice.spec
        if self._configured not in (None, used, self.next.choice.spec if self.next else None):
            found.append(
                f"KNOWLEDGE_EMBEDDING is {self._configured}, but this data folder uses {used}; "
                f"run 'knowledge reindex --model {self._configured}' to change it."
            )
        return found

    def _all_models(self) -> tuple[ModelLoader, ...]:
        return (self.serving,) if self.next is None else (self.serving, self.next)
