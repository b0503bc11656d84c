"""Reads the configuration of a sentence-transformers folder: window, pooling, prompts and files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from knowledge.embed.pooling import Pooling
from knowledge.errors import ModelUnavailable
from knowledge.model import Json

SAFETENSORS_FILE = "model.safetensors"
ONNX_FILES = (
    "onnx/model.onnx",
    "model.onnx",
    "onnx/model_optimized.onnx",
    "model_optimized.onnx",
    "onnx/model_quantized.onnx",
)
TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "config.json"
POOLING_FILE = "1_Pooling/config.json"
DEFAULT_WINDOW_TOKENS = 512
SUPPORTED_MODULES = ("Transformer", "Pooling", "Normalize")
HINT = "Use a sentence-transformers folder with tokenizer.json and model.onnx or model.safetensors."


@dataclass(frozen=True, slots=True)
class ModelFolder:
    folder: Path
    settings: Json
    """The parsed config.json."""
    window: int
    pooling: Pooling
    question_prompt: str
    passage_prompt: str
    padding: int

    def load_tokenizer(self) -> Tokenizer:
        """Return the tokenizer without truncation and padding."""
        tokenizer = _read_tokenizer(self.folder)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    def compute_fingerprint(self, weights: Path) -> str:
        digest = hashlib.sha256()
        for path in (weights, self.folder / TOKENIZER_FILE):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        digest.update(repr((self.question_prompt, self.passage_prompt)).encode())
        return f"{self.pooling}/{self.window}/{digest.hexdigest()[:32]}"


def read_model_folder(folder: Path) -> ModelFolder:
    if not folder.is_dir():
        raise ModelUnavailable(f"The model folder {folder} does not exist", hint=HINT, path=str(folder))
    _refuse_unknown_modules(folder)
    settings = _read_json_object(folder / CONFIG_FILE)
    question, passage = _read_prompts(_read_json_object(folder / "config_sentence_transformers.json"))
    padding = settings.get("pad_token_id")
    return ModelFolder(
        folder=folder,
        settings=settings,
        window=_read_window(folder, settings),
        pooling=_read_pooling(folder),
        question_prompt=question,
        passage_prompt=passage,
        padding=padding if isinstance(padding, int) else 0,
    )


def find_onnx_file(folder: Path) -> Path | None:
    return next((folder / name for name in ONNX_FILES if (folder / name).is_file()), None)


def find_position_offset(settings: Json) -> int:
    """Return the first position id: RoBERTa models count from the id after the padding token."""
    if "roberta" not in str(settings.get("model_type", "")):
        return 0
    padding = settings.get("pad_token_id")
    return (padding if isinstance(padding, int) else 1) + 1


def _read_window(folder: Path, settings: Json) -> int:
    named = [
        _read_json_object(folder / "sentence_bert_config.json").get("max_seq_length"),
        _read_json_object(folder / "tokenizer_config.json").get("model_max_length"),
    ]
    places = settings.get("max_position_embeddings")
    limit = places - find_position_offset(settings) if isinstance(places, int) else DEFAULT_WINDOW_TOKENS
    wanted = next((number for number in named if isinstance(number, int) and number > 0), DEFAULT_WINDOW_TOKENS)
    return min(wanted, limit)


def _read_pooling(folder: Path) -> Pooling:
    settings = _read_json_object(folder / POOLING_FILE)
    modes = [
        key.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for key, value in settings.items()
        if key.startswith("pooling_mode_") and value is True
    ]
    if isinstance(named := settings.get("pooling_mode"), str):
        modes = [named]
    if not modes:
        return Pooling.MEAN
    if len(modes) == 1 and modes[0] in list(Pooling):
        return Pooling(modes[0])
    raise ModelUnavailable(
        f"The model in {folder} uses unsupported pooling: {' and '.join(modes)}",
        hint=f"Supported pooling modes: {', '.join(Pooling)}.",
        path=str(folder),
    )


def _read_prompts(settings: Json) -> tuple[str, str]:
    """Return the prefixes of queries and of passages."""
    prompts = settings.get("prompts")
    if not isinstance(prompts, dict):
        return "", ""
    default = str(prompts.get(str(settings.get("default_prompt_name")), ""))

    def prompt(*names: str) -> str:
        return next((str(prompts[name]) for name in names if name in prompts), default)

    return prompt("query"), prompt("document", "passage")


def _refuse_unknown_modules(folder: Path) -> None:
    modules = _read_json(folder / "modules.json")
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules] if isinstance(modules, list) else []
    if unknown := [kind for kind in kinds if kind not in SUPPORTED_MODULES]:
        raise ModelUnavailable(
            f"The model in {folder} has unsupported modules: {', '.join(unknown)}",
            hint=f"Supported modules: {', '.join(SUPPORTED_MODULES)}.",
            path=str(folder),
        )


def _read_tokenizer(folder: Path) -> Tokenizer:
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise ModelUnavailable(f"The model in {folder} has no {TOKENIZER_FILE}", hint=HINT, path=str(folder))
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise ModelUnavailable(f"{path} is not a tokenizer: {error}", hint=HINT, path=str(path)) from error


def _read_json_object(path: Path) -> Json:
    value = _read_json(path)
    return value if isinstance(value, dict) else {}


def _read_json(path: Path) -> Json | list[Json] | None:
    if not path.is_file():
        return None
    try:
        value: Json | list[Json] | None = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} could not be read: {error}", hint=HINT, path=str(path)) from error
    return value
