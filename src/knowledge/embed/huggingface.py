"""Downloads models from the Hugging Face hub into the cache folder on first use."""

from __future__ import annotations

import contextlib
from pathlib import Path

from knowledge.embed import folder_embedder, model_folder
from knowledge.errors import ModelUnavailable

DESCRIPTION_FILES = ["*.json", "*/config.json"]
# Configuration files, downloaded before the weights.
HINT = "Check the name and the network, or download the folder elsewhere and set KNOWLEDGE_EMBEDDING=dir:PATH."


def fetch_model(name: str, cache: Path, endpoint: str | None = None) -> Path:
    """Return the folder of the model; downloads it if the cache is incomplete."""
    if folder := find_cached_model(name, cache):
        return folder
    try:
        return _download_model(name, cache, endpoint)
    except ModelUnavailable:
        raise
    except Exception as error:  # huggingface_hub raises HTTP, file and validation errors without a common base
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"The model {name!r} could not be downloaded from the hub: {reason}", hint=HINT, model=name
        ) from error


def find_cached_model(name: str, cache: Path) -> Path | None:
    """Return the folder of a completely downloaded model, or None."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(name, cache_dir=cache, local_files_only=True, allow_patterns=DESCRIPTION_FILES))
    except (LocalEntryNotFoundError, HFValidationError):
        return None
    return folder if _is_complete(folder) else None


def _download_model(name: str, cache: Path, endpoint: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()  # they would fill the server's log
    folder = Path(snapshot_download(name, cache_dir=cache, allow_patterns=DESCRIPTION_FILES, endpoint=endpoint))
    for files in _list_wanted_files(folder):
        # The folder is named after the commit; the weights must come from the same one.
        snapshot_download(name, cache_dir=cache, allow_patterns=files, revision=folder.name, endpoint=endpoint)
        if _is_complete(folder):
            return folder
    raise ModelUnavailable(
        f"The model {name!r} has no usable files on the hub",
        hint=f"It needs {model_folder.TOKENIZER_FILE}, and {model_folder.SAFETENSORS_FILE} or an ONNX file.",
        model=name,
    )


def _list_wanted_files(folder: Path) -> list[list[str]]:
    """Return the alternatives for the weights in order of preference; only one is downloaded."""
    exported = [[file, file + "_data"] for file in model_folder.ONNX_FILES]
    settings = model_folder.read_model_folder(folder).settings
    return [[model_folder.SAFETENSORS_FILE], *exported] if folder_embedder.is_supported(settings) else exported


def _is_complete(folder: Path) -> bool:
    with contextlib.suppress(ModelUnavailable):
        model = model_folder.read_model_folder(folder)
        usable = (folder / model_folder.SAFETENSORS_FILE).is_file() and folder_embedder.is_supported(model.settings)
        return (folder / model_folder.TOKENIZER_FILE).is_file() and (
            usable or model_folder.find_onnx_file(folder) is not None
        )
    return False
