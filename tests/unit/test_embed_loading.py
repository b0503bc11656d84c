from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from safetensors.numpy import save_file

from knowledge.embed import huggingface, loading
from knowledge.embed.cpu_features import has_fast_int8
from knowledge.embed.loading import ModelChoice, ModelLoader
from knowledge.errors import ModelUnavailable
from tests.support import tiny_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "somebody/tiny"
LIMIT = 60.0


def choice(spec: str, cache: Path) -> ModelChoice:
    return ModelChoice(spec=spec, cache_folder=cache, threads=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tiny_model.write_model_folder(tmp_path / "tiny")
    save_file(tiny_model.make_weights(), made / "model.safetensors")
    return made


def test_the_default_model_loads_in_the_background(tmp_path: Path) -> None:
    model = ModelLoader(choice("default", tmp_path))
    assert model.embedder is None and not model.status().loaded and model.status().arithmetic is None
    model.start()
    embedder = model.wait_for_embedder(LIMIT)
    assert model.embedder is embedder and model.error is None
    assert model.status().name == embedder.name == "granite-embedding-30m-english"
    assert model.status().dimension == 384 and model.status().device == "cpu"
    assert model.status().arithmetic == ("int8" if has_fast_int8() else "float32")
    model.close()


def test_a_folder_s_model_has_the_folder_s_name(folder: Path, tmp_path: Path) -> None:
    model = ModelLoader(choice(f"dir:{folder}", tmp_path))
    model.start()
    assert model.wait_for_embedder(LIMIT).name == model.name == "tiny"
    assert loading.find_window(model.choice) == tiny_model.WINDOW
    assert len(loading.load_tokenizer(model.choice).encode("tea " * 100).ids) == 102
    model.close()


def test_no_model_is_no_error(tmp_path: Path) -> None:
    model = ModelLoader(choice("none", tmp_path))
    model.start()
    assert model.embedder is None and model.error is None
    with pytest.raises(ModelUnavailable, match="No embedding model is set"):
        model.wait_for_embedder(LIMIT)
    assert loading.find_window(model.choice) == 256 and loading.load_tokenizer(model.choice).encode("tea").ids


@pytest.mark.parametrize(("spec", "sentence"), [
    ("dir:/there/is/nothing", "does not exist"),
    ("dir:", "Unknown embedding model 'dir:'"),
    ("magic", "Unknown embedding model 'magic'"),
    ("openai:somewhere#model", "does not contain a URL and a model name"),
    ("openai:http://127.0.0.1:9/v1", "does not contain a URL and a model name"),
    ("hf:not a name", "'not a name' could not be downloaded"),
])  # fmt: skip
def test_a_model_that_cannot_be_loaded_says_why(tmp_path: Path, spec: str, sentence: str) -> None:
    model = ModelLoader(choice(spec, tmp_path))
    model.start()
    with pytest.raises(ModelUnavailable, match=sentence) as caught:
        model.wait_for_embedder(LIMIT)
    assert model.error == str(caught.value) == model.status().error and model.embedder is None
    assert caught.value.hint


def test_a_service_that_is_down_at_the_start_is_tried_again(tmp_path: Path) -> None:
    model = ModelLoader(choice("openai:http://127.0.0.1:9/v1#m", tmp_path), retry_seconds=LIMIT)
    model.start()
    with pytest.raises(ModelUnavailable, match="could not be reached"):
        model.wait_for_embedder(LIMIT)
    assert model.status().device == "remote" and model.status().arithmetic is None
    assert model._thread is not None and model._thread.is_alive()
    model.close()
    model._thread.join(LIMIT)
    assert not model._thread.is_alive()


# -- the hub --------------------------------------------------------------------------------------


class Hub(SimpleHTTPRequestHandler):
    """A minimal hub server that serves one model from a folder."""

    asked: list[str]

    def __init__(self, folder: Path, asked: list[str], *args: object) -> None:
        self.folder, self.asked = folder, asked
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.asked.append(path)
        if path.startswith(f"/api/models/{NAME}"):
            self._answer(json.dumps(self._description(path)).encode(), {})
        elif path.startswith(f"/{NAME}/resolve/"):
            self._file(path.split("/", 5)[5])
        else:
            self.send_error(404)

    def _description(self, path: str) -> object:
        names = [file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()]
        if "/tree/" in path:
            return [
                {"type": "file", "path": name, "size": (self.folder / name).stat().st_size, "oid": self._tag(name)}
                for name in names
            ]
        return {"id": NAME, "sha": COMMIT, "siblings": [{"rfilename": name} for name in names], "private": False}

    def _tag(self, name: str) -> str:
        return hashlib.sha1((self.folder / name).read_bytes(), usedforsecurity=False).hexdigest()

    def _file(self, name: str) -> None:
        if (self.folder / name).is_file():
            self._answer((self.folder / name).read_bytes(), {"ETag": f'"{self._tag(name)}"', "X-Repo-Commit": COMMIT})
        else:
            self.send_error(404)

    def _answer(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def endpoint(folder: Path, asked: list[str]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, folder, asked))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_from_the_hub_is_fetched_once(tmp_path: Path, endpoint: str, asked: list[str]) -> None:
    tiny_model.write_word_table_onnx(tmp_path / "tiny/onnx/model.onnx")
    fetched = huggingface.fetch_model(NAME, tmp_path / "models", endpoint)
    assert (fetched / "model.safetensors").is_file() and not (fetched / "onnx").exists()
    asked.clear()
    assert huggingface.fetch_model(NAME, tmp_path / "models", endpoint) == fetched and not asked
    kept = loading.load(choice(f"hf:{NAME}", tmp_path / "models"))
    assert kept.name == NAME
    expected = tiny_model.normalize_vector(tiny_model.compute_token_vectors("tea").mean(0))
    assert np.allclose(kept.embed(["tea"])[0], expected, atol=1e-5)


def test_a_model_that_our_graph_does_not_fit_is_fetched_as_onnx(tmp_path: Path, folder: Path, endpoint: str) -> None:
    tiny_model.write_json(folder / "config.json", {"model_type": "mpnet"})
    tiny_model.write_word_table_onnx(folder / "onnx/model.onnx")
    fetched = huggingface.fetch_model(NAME, tmp_path / "models", endpoint)
    assert (fetched / "onnx/model.onnx").is_file() and not (fetched / "model.safetensors").exists()


def test_a_model_without_usable_files_is_an_error(tmp_path: Path, folder: Path, endpoint: str) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match="has no usable files"):
        huggingface.fetch_model(NAME, tmp_path / "models", endpoint)


@pytest.mark.parametrize(("name", "address"), [("somebody/unknown", None), (NAME, "http://127.0.0.1:9")])
def test_an_unknown_name_or_no_network_is_an_error(
    tmp_path: Path, endpoint: str, name: str, address: str | None
) -> None:
    with pytest.raises(ModelUnavailable, match="could not be downloaded from the hub") as caught:
        huggingface.fetch_model(name, tmp_path / "models", address or endpoint)
    assert "dir:PATH" in caught.value.hint
