import shutil
from pathlib import Path

import numpy as np
import pytest

from localrag.errors import ModelError
from localrag.models.embeddings.onnx import OnnxEmbedder

pytestmark = pytest.mark.models("bge-small-en-v1.5-int8", "ms-marco-minilm-l12-v2-int8")

PINNED_DOCUMENT = [-0.0586, 0.0137, 0.0072, 0.0113]
PINNED_SIMILARITY = 0.9275
PREFIX_TOKENS = 10
"""Eight of the prefix, and the marks of begin and end."""


def test_values_of_the_published_model(models_dir) -> None:
    """The similarity that the query prefix gives, and the vector's beginning."""
    embedder = OnnxEmbedder(models_dir("bge-small-en-v1.5-int8"))
    (document,) = embedder.embed_documents(["Vaccines train the immune system."])
    (query,) = embedder.embed_queries(["Vaccines train the immune system."])
    np.testing.assert_allclose(document[:4], PINNED_DOCUMENT, atol=0.01)
    assert float(document @ query) == pytest.approx(PINNED_SIMILARITY, abs=0.01)
    assert embedder.dimension == 384
    assert embedder.max_tokens == 512 - PREFIX_TOKENS


def test_a_model_below_onnx_gives_the_same_vectors(models_dir, tmp_path: Path) -> None:
    """As hubs lay it out, under a name that says the family."""
    good, folder = models_dir("bge-small-en-v1.5-int8"), tmp_path / "bge-small-en-v1.5"
    (folder / "onnx").mkdir(parents=True)
    for name in ("tokenizer.json", "config.json", "tokenizer_config.json"):
        shutil.copy(good / name, folder)
    shutil.copy(good / "model.onnx", folder / "onnx" / "model_quantized.onnx")
    copy, original = OnnxEmbedder(folder), OnnxEmbedder(good)
    np.testing.assert_array_equal(
        copy.embed_queries(["an immune system"]), original.embed_queries(["an immune system"])
    )
    assert copy.dimension == 384
    assert copy.fingerprint.split()[1] == original.fingerprint.split()[1]


def test_the_end_beyond_the_window_is_cut(models_dir) -> None:
    embedder = OnnxEmbedder(models_dir("bge-small-en-v1.5-int8"))
    text = "river " * 600
    first, second = embedder.embed_documents([text + "chess", text + "bread"])
    np.testing.assert_array_equal(first, second)


def test_a_given_hash_replaces_the_reading(models_dir) -> None:
    folder = models_dir("bge-small-en-v1.5-int8")
    published = "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"
    embedder = OnnxEmbedder(folder, weights_sha256=published)
    assert embedder.fingerprint == OnnxEmbedder(folder).fingerprint
    assert embedder.fingerprint != OnnxEmbedder(folder, weights_sha256="0" * 64).fingerprint


def test_a_cross_encoder_is_no_embedding_model(models_dir) -> None:
    with pytest.raises(ModelError, match="not an embedding model"):
        OnnxEmbedder(models_dir("ms-marco-minilm-l12-v2-int8"))


def test_damaged_files_are_named(models_dir, tmp_path: Path) -> None:
    good = models_dir("bge-small-en-v1.5-int8")
    shutil.copy(good / "tokenizer.json", tmp_path)
    (tmp_path / "model.onnx").write_bytes((good / "model.onnx").read_bytes()[:100_000])
    with pytest.raises(ModelError, match=r"cannot open the model .*model\.onnx"):
        OnnxEmbedder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be read"):
        OnnxEmbedder(tmp_path)
