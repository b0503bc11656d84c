from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from knowledge.embed import model_file
from knowledge.embed.granite import DIMENSION, WINDOW_TOKENS, GraniteEmbedder, Int8Setting, load_tokenizer
from knowledge.errors import ModelUnavailable

DATA = Path(__file__).parent.parent / "data" / "embed"
SAMPLES: dict[str, list[str]] = json.loads((DATA / "samples.json").read_text(encoding="utf-8"))
REFERENCE = np.load(DATA / "reference.npz")


@pytest.fixture(scope="module")
def exact() -> GraniteEmbedder:
    return GraniteEmbedder("off", threads=2)


@pytest.fixture(scope="module")
def rounded() -> GraniteEmbedder:
    return GraniteEmbedder("on", threads=2)


def worst_cosine(model: GraniteEmbedder, group: str) -> float:
    """Compare single texts, and batches within the window: we truncate the beginning, the reference the end."""
    texts, reference = SAMPLES[group], REFERENCE[group]
    counting = load_tokenizer()
    fits = [len(counting.encode(text).ids) <= WINDOW_TOKENS for text in texts]
    together = (model.embed(texts) * reference).sum(1)[fits]
    alone = (np.vstack([model.embed_question(text) for text in texts]) * reference).sum(1)
    return float(min(together.min(), alone.min()))


@pytest.mark.parametrize("group", ["passages", "oddities"])
def test_float32_vectors_equal_the_reference(exact: GraniteEmbedder, group: str) -> None:
    assert worst_cosine(exact, group) >= 0.9999


def test_int8_vectors_are_near_the_reference(rounded: GraniteEmbedder) -> None:
    assert worst_cosine(rounded, "passages") >= 0.995


def test_int8_vectors_of_empty_and_degenerate_texts_stay_usable(rounded: GraniteEmbedder) -> None:
    assert worst_cosine(rounded, "oddities") >= 0.98


def test_vectors_have_unit_length_and_come_in_the_order_of_the_texts(exact: GraniteEmbedder) -> None:
    texts = SAMPLES["passages"] * 3
    vectors = exact.embed(texts)
    assert vectors.shape == (len(texts), DIMENSION) and vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.allclose(vectors[: len(SAMPLES["passages"])], vectors[len(SAMPLES["passages"]) * 2 :], atol=1e-5)


def test_no_texts_give_no_vectors(exact: GraniteEmbedder) -> None:
    assert exact.embed([]).shape == (0, DIMENSION)


def test_similar_texts_are_closer_than_others(exact: GraniteEmbedder) -> None:
    question = exact.embed_question("how long should tea steep?")[0]
    near, far = exact.embed(["Green tea steeps for two minutes.", "The invoice is due in September."])
    assert question @ near > question @ far + 0.1


def test_the_tokenizer_for_counting_does_not_truncate() -> None:
    assert len(load_tokenizer().encode("word " * 1000).ids) > 1000 > WINDOW_TOKENS


@pytest.mark.parametrize("setting", ["on", "off"])
def test_the_arithmetic_can_be_chosen_and_does_not_change_the_fingerprint(setting: Int8Setting) -> None:
    model = GraniteEmbedder(setting, threads=1)
    assert model.int8 is (setting == "on")
    assert model.fingerprint == GraniteEmbedder.fingerprint and model_file.SHA256[:16] in model.fingerprint


def test_other_bytes_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    changed = bytearray(model_file.find_model_file().read_bytes())
    changed[-1] ^= 1
    path = tmp_path / "changed.hmsemb"
    path.write_bytes(changed)
    with pytest.raises(ModelUnavailable, match="wrong SHA-256 checksum") as caught:
        GraniteEmbedder(path=path)
    assert caught.value.details["expected_sha256"] == model_file.SHA256


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_model_file_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "pack"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnavailable, match="could not be read"):
        GraniteEmbedder(path=path)
