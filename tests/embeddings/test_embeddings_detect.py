from pathlib import Path

import pytest

from localrag.errors import ModelError, ModelNotFoundError
from localrag.models.embeddings.folder import kind_of


def make(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"{}")
    return folder


def test_folders_are_told_apart_by_their_files(tmp_path: Path) -> None:
    assert kind_of(make(tmp_path / "a", "model.onnx", "tokenizer.json")) == "onnx"
    assert kind_of(make(tmp_path / "b", "config.json", "model.safetensors")) == (
        "sentence-transformers"
    )
    assert kind_of(make(tmp_path / "c", "config.json", "pytorch_model.bin")) == (
        "sentence-transformers"
    )
    mixed_folder = make(
        tmp_path / "d", "config.json", "model.safetensors", "model.onnx", "tokenizer.json"
    )
    assert kind_of(mixed_folder) == "onnx"
    for below in ("onnx/model.onnx", "onnx/model_quantized.onnx"):
        assert kind_of(make(tmp_path / below[:-5], below, "tokenizer.json")) == "onnx"
    hub = make(tmp_path / "e", "config.json", "model.safetensors", "onnx/model.onnx")
    assert kind_of(make(hub, "tokenizer.json")) == "sentence-transformers"


@pytest.mark.parametrize(
    "names",
    [(), ("chat.gguf",), ("model.onnx",), ("other.onnx",), ("model.safetensors",)],
    ids=str,
)
def test_other_folders_are_refused_with_what_is_wanted(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    with pytest.raises(ModelError, match=r"contains no embedding model.*localrag needs"):
        kind_of(make(tmp_path, *names))


def test_a_gguf_file_is_refused_for_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"bge\.gguf is a GGUF file"):
        kind_of(make(tmp_path, "bge.gguf") / "bge.gguf")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no embedding model folder .*absent"):
        kind_of(tmp_path / "absent")


@pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8", "all-minilm-l6-v2")
def test_the_models_on_disk(models_dir) -> None:
    assert kind_of(models_dir("use-multilingual-v3")) == "use"
    assert kind_of(models_dir("bge-small-en-v1.5-int8")) == "onnx"
    assert kind_of(models_dir("all-minilm-l6-v2")) == "sentence-transformers"
    assert kind_of(models_dir("m3e-small")) == "sentence-transformers"
