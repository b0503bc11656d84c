"""Loads the embedding model of a setting (default, none, dir:PATH, hf:NAME or openai:URL#MODEL) in the background."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from knowledge.embed.embedder import Embedder
from knowledge.errors import EmbeddingFailed, KnowledgeError, ModelUnavailable
from knowledge.model import ModelStatus, NextModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

HINT = "Set KNOWLEDGE_EMBEDDING to default, none, dir:PATH, hf:NAME or openai:URL#MODEL."
DEFAULT_NAME = "granite-embedding-30m-english"
# Passages are split for this window even if the model supports more, because retrieval is better with small ones.
WINDOW_TOKENS = 256
RETRY_SECONDS = 30.0
CLOSE_SECONDS = 5.0
# Close waits this long for a loading thread; a download from the hub may take longer.


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The settings that select and configure an embedding model."""

    spec: str = "default"
    key: str | None = None
    dimension: int | None = None
    int8: Literal["auto", "on", "off"] = "auto"
    threads: int = 0
    """Threads for embedding passages; 0 means one for each CPU core."""
    cache_folder: Path
    """Folder for models from the hub."""

    @property
    def kind(self) -> str:
        return self.spec.partition(":")[0]

    @property
    def target(self) -> str:
        return self.spec.partition(":")[2]

    @property
    def name(self) -> str:
        """Name of the model, known before it is loaded."""
        match self.kind:
            case "default":
                return DEFAULT_NAME
            case "dir":
                return Path(self.target).expanduser().resolve().name
            case "openai":
                return self.target.rpartition("#")[2]
        return self.target or self.kind


def load(choice: ModelChoice) -> Embedder:
    """Load the model; raises ModelUnavailable or EmbeddingFailed with the reason."""
    match choice.kind:
        case "default":
            from knowledge.embed.granite import GraniteEmbedder

            return GraniteEmbedder(choice.int8, choice.threads)
        case "dir" if choice.target:
            return _load_from_folder(choice, Path(choice.target).expanduser())
        case "hf" if choice.target:
            return _load_from_folder(choice, _fetch_from_hub(choice))
        case "openai":
            return _connect_remote(choice)
        case "none":
            raise ModelUnavailable("No embedding model is set", hint=HINT)
    raise ModelUnavailable(f"Unknown embedding model {choice.spec!r}", hint=HINT, spec=choice.spec)


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """Tokenizer and window that splitting needs; contains no secrets, so it can be sent to a child process."""

    folder: str | None
    """The model's folder; None for the tokenizer of the default model."""
    window: int
    """Maximum tokens of a passage with title, headings and special tokens."""

    def load_tokenizer(self) -> Tokenizer:
        return _load_tokenizer(self.folder)


@lru_cache(maxsize=2)  # the model in use, and the one that follows it
def find_tokenizer_spec(choice: ModelChoice) -> TokenizerSpec:
    """Return the tokenizer of a model without loading the model; one from the hub is downloaded."""
    from knowledge.embed import model_folder

    match choice.kind:
        case "dir" if choice.target:
            folder = Path(choice.target).expanduser()
        case "hf" if choice.target:
            folder = _fetch_from_hub(choice)
        case _:
            return TokenizerSpec(None, WINDOW_TOKENS)
    return TokenizerSpec(str(folder), min(WINDOW_TOKENS, model_folder.read_model_folder(folder).window))


@lru_cache(maxsize=2)
def _load_tokenizer(folder: str | None) -> Tokenizer:
    from knowledge.embed import folder_embedder, granite

    return granite.load_tokenizer() if folder is None else folder_embedder.load_tokenizer(Path(folder))


def load_tokenizer(choice: ModelChoice) -> Tokenizer:
    return find_tokenizer_spec(choice).load_tokenizer()


def find_window(choice: ModelChoice) -> int:
    return find_tokenizer_spec(choice).window


def _load_from_folder(choice: ModelChoice, folder: Path) -> Embedder:
    from knowledge.embed.folder_embedder import FolderEmbedder

    return FolderEmbedder(folder, choice.name, choice.threads)


def _fetch_from_hub(choice: ModelChoice) -> Path:
    from knowledge.embed import huggingface

    return huggingface.fetch_model(choice.target, choice.cache_folder)


def _connect_remote(choice: ModelChoice) -> Embedder:
    from knowledge.embed.openai import EmbeddingEndpoint, OpenAIEmbedder

    url, _, model = choice.target.rpartition("#")
    if not url.startswith(("http://", "https://")) or not model:
        raise ModelUnavailable(
            f"{choice.spec!r} does not contain a URL and a model name",
            hint="Write openai:https://HOST/v1#MODEL.",
            spec=choice.spec,
        )
    return OpenAIEmbedder(EmbeddingEndpoint(url, model), choice.key, choice.dimension)


class ModelLoader:
    """Loads an embedder in a background thread and reports its status."""

    def __init__(self, choice: ModelChoice, retry_seconds: float = RETRY_SECONDS) -> None:
        self.choice = choice
        self.error: str | None = None
        self._retry_seconds = retry_seconds
        self.embedder: Embedder | None = None
        """None until it is loaded, and after a failure."""
        self._failure: KnowledgeError | None = None
        self._settled = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        return self.choice.name

    @property
    def loader(self) -> str | None:
        """Import path (`module:function`) that loads this model in a child process; None for a remote service."""
        return None if self.choice.kind == "openai" else "knowledge.embed.loading:load"

    def start(self) -> None:
        if self.choice.kind == "none":
            self._failure = ModelUnavailable("No embedding model is set", hint=HINT)
            self._settled.set()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._load_with_retries, name="load-model", daemon=True)
            self._thread.start()

    def wait_until_settled(self, timeout: float) -> bool:
        """Wait until the model is loaded or has failed; False on timeout."""
        return self._settled.wait(timeout)

    def wait_for_embedder(self, timeout: float | None = None) -> Embedder:
        """Return the embedder; raises ModelUnavailable on failure or timeout."""
        self._settled.wait(timeout)
        if self.embedder is not None:
            return self.embedder
        if self._failure is None:
            raise ModelUnavailable(f"The model {self.name!r} is still loading", model=self.name)
        raise ModelUnavailable(str(self._failure), hint=self._failure.hint, **self._failure.details)

    def raise_if_service_failed(self) -> None:
        """Raise the error of a remote service that could not be reached; other failures are ignored."""
        failure = self._failure
        if isinstance(failure, EmbeddingFailed):
            raise type(failure)(str(failure), hint=failure.hint, **failure.details)

    def status(self, following: NextModel | None = None) -> ModelStatus:
        embedder = self.embedder
        return ModelStatus(
            name=self.name,
            dimension=embedder.dimension if embedder else 0,
            device="remote" if self.choice.kind == "openai" else "cpu",
            loaded=embedder is not None,
            error=self.error,
            next=following,
            arithmetic=self._find_arithmetic(embedder),
        )

    def _find_arithmetic(self, embedder: Embedder | None) -> str | None:
        if embedder is None or self.choice.kind == "openai":
            return None
        return "int8" if getattr(embedder, "int8", False) else "float32"  # only the default model can use int8

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:  # exiting while a native library is being imported can crash
            self._thread.join(CLOSE_SECONDS)
        close = getattr(self.embedder, "close", None)
        if close is not None:
            close()

    def _load_with_retries(self) -> None:
        """Load the model; only failures of a remote service are retried."""
        while not self._closed.is_set():
            try:
                self.embedder, self.error, self._failure = load(self.choice), None, None
            except EmbeddingFailed as error:
                self._record_failure(error)
                self._closed.wait(self._retry_seconds)
                continue
            except KnowledgeError as error:
                self._record_failure(error)
            except Exception as error:  # keyword search must keep working
                log.exception("The model %r could not be loaded", self.name)
                self._record_failure(ModelUnavailable(f"The model {self.name!r} could not be loaded: {error}"))
            self._settled.set()
            return

    def _record_failure(self, error: KnowledgeError) -> None:
        if self.error is None:
            log.warning("%s. %s", error, error.hint)
        self.error, self._failure = str(error), error
        self._settled.set()
