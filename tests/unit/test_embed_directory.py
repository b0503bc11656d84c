from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from knowledge.embed.folder_embedder import FolderEmbedder, load_tokenizer
from knowledge.errors import ModelUnavailable
from tests.support import tiny_model

TEXTS = ["tea", "tea at noon", "a cup of coffee in the kitchen", "cup of tea cup of tea"]


def write_weights(folder: Path, prefix: str = "", kind: type = np.float32) -> Path:
    save_file(
        {prefix + name: array.astype(kind) for name, array in tiny_model.make_weights().items()},
        folder / "model.safetensors",
    )
    return folder


@pytest.mark.parametrize(("pooling", "sum_up"), [
    ("mean_tokens", lambda tokens: tokens.mean(0)),
    ("cls_token", lambda tokens: tokens[0]),
    ("max_tokens", lambda tokens: tokens.max(0)),
])  # fmt: skip
def test_safetensors_give_the_vectors_of_the_model_s_definition(tmp_path: Path, pooling: str, sum_up: object) -> None:
    assert callable(sum_up)
    model = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "tiny", pooling=pooling)), threads=2)
    expected = np.array([tiny_model.normalize_vector(sum_up(tiny_model.compute_token_vectors(text))) for text in TEXTS])
    assert np.allclose(model.embed(TEXTS), expected, atol=1e-5)
    assert np.allclose(np.vstack([model.embed_question(text) for text in TEXTS]), expected, atol=1e-5)
    assert (model.name, model.dimension) == ("tiny", tiny_model.HIDDEN_SIZE)


def test_roberta_positions_start_after_the_padding_token(tmp_path: Path) -> None:
    folder = write_weights(
        tiny_model.write_model_folder(tmp_path / "tiny", pooling="cls_token", offset=2), prefix="roberta."
    )
    expected = tiny_model.normalize_vector(tiny_model.compute_token_vectors("tea at noon", offset=2)[0])
    assert np.allclose(FolderEmbedder(folder).embed(["tea at noon"])[0], expected, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_weights_are_read(tmp_path: Path, kind: type) -> None:
    model = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "tiny"), kind=kind))
    expected = tiny_model.normalize_vector(tiny_model.compute_token_vectors("tea").mean(0))
    assert float(model.embed(["tea"])[0] @ expected) > 0.999


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx"])
def test_an_exported_model_runs_from_either_place(tmp_path: Path, file: str) -> None:
    folder = tiny_model.write_model_folder(tmp_path / "tiny")
    tiny_model.write_word_table_onnx(folder / file)
    rows = tiny_model.make_weights()["embeddings.word_embeddings.weight"][[2, 4, 3]]  # [CLS] tea [SEP]
    assert np.allclose(
        FolderEmbedder(folder).embed(["tea", "tea at noon"])[0], tiny_model.normalize_vector(rows.mean(0)), atol=1e-6
    )


def test_a_pooled_output_of_the_model_is_used(tmp_path: Path) -> None:
    folder = tiny_model.write_model_folder(tmp_path / "tiny")
    tiny_model.write_word_table_onnx(folder / "model.onnx", summed_up=True)
    rows = tiny_model.make_weights()["embeddings.word_embeddings.weight"][[2, 4, 3]]
    assert np.allclose(
        FolderEmbedder(folder).embed_question("tea")[0], tiny_model.normalize_vector(rows.max(0)), atol=1e-6
    )


def test_prompts_are_put_before_questions_and_passages(tmp_path: Path) -> None:
    plain = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "plain")))
    prompts = {"query": "query ", "document": "passage "}
    prompted = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "prompted", prompts=prompts)))
    assert np.allclose(prompted.embed_question("tea"), plain.embed_question("query tea"), atol=1e-6)
    assert np.allclose(prompted.embed(["tea"]), plain.embed(["passage tea"]), atol=1e-6)
    assert prompted.fingerprint.partition("/")[2] != plain.fingerprint.partition("/")[2]


def test_tokens_beyond_the_window_are_ignored(tmp_path: Path) -> None:
    model = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "tiny")))
    long = "tea " * (tiny_model.WINDOW - 2)
    assert np.allclose(model.embed_question(long + "coffee " * 50), model.embed([long]), atol=1e-6)
    assert np.allclose(model.embed(["coffee " * 50 + long]), model.embed([long]), atol=1e-6)
    assert len(load_tokenizer(tmp_path / "tiny").encode("tea " * 100).ids) == 102


def test_other_weights_have_another_fingerprint(tmp_path: Path) -> None:
    one = FolderEmbedder(write_weights(tiny_model.write_model_folder(tmp_path / "one")), name="same")
    two = tiny_model.write_model_folder(tmp_path / "two")
    save_file(tiny_model.make_weights(seed=8), two / "model.safetensors")
    assert one.fingerprint != FolderEmbedder(two, name="same").fingerprint


def broken_folder(folder: Path, fault: str) -> Path:
    if fault == "no folder":
        return folder / "nowhere"
    tiny_model.write_model_folder(folder)
    match fault:
        case "no tokenizer":
            (folder / "tokenizer.json").unlink()
        case "broken tokenizer":
            (folder / "tokenizer.json").write_text("{}")
        case "broken settings":
            (folder / "config.json").write_text("{")
        case "broken weights":
            (folder / "model.safetensors").write_bytes(b"no weights")
        case "missing weights":
            save_file({"something": np.zeros(3, np.float32)}, folder / "model.safetensors")
        case "other architecture":
            tiny_model.write_json(folder / "config.json", {"model_type": "mpnet"})
            write_weights(folder)
        case "other pooling":
            tiny_model.write_json(folder / "1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True})
        case "other module":
            tiny_model.write_json(folder / "modules.json", [{"type": "sentence_transformers.models.Dense"}])
        case "other input":
            tiny_model.write_word_table_onnx(folder / "model.onnx", extra_input="pixel_values")
        case "broken graph":
            (folder / "model.onnx").write_bytes(b"no graph")
    return folder


@pytest.mark.parametrize(("fault", "sentence"), [
    ("no folder", "does not exist"),
    ("no tokenizer", "has no tokenizer.json"),
    ("broken tokenizer", "is not a tokenizer"),
    ("broken settings", "could not be read"),
    ("no weights", "neither model.safetensors nor an ONNX file"),
    ("broken weights", "could not be read"),
    ("missing weights", "has no tensor"),
    ("other architecture", "'mpnet', which is not supported"),
    ("other pooling", "unsupported pooling: weightedmean"),
    ("other module", "unsupported modules: Dense"),
    ("other input", "unsupported inputs: pixel_values"),
    ("broken graph", "could not be loaded"),
])  # fmt: skip
def test_an_unusable_folder_is_an_error(tmp_path: Path, fault: str, sentence: str) -> None:
    with pytest.raises(ModelUnavailable, match=sentence):
        FolderEmbedder(broken_folder(tmp_path / "model", fault))
