import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from localrag.errors import ModelError
from localrag.models.embeddings.sentence_transformers import SentenceTransformerEmbedder


def test_a_folder_that_is_none_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.safetensors"):
        SentenceTransformerEmbedder(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match=r"lacks config\.json"):
        SentenceTransformerEmbedder(tmp_path)


def test_a_damaged_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(ModelError, match="sentence-transformers cannot open"):
        SentenceTransformerEmbedder(tmp_path)


@pytest.mark.models("all-minilm-l6-v2")
def test_pickled_weights_cannot_run_code(models_dir, tmp_path: Path) -> None:
    import torch

    class Evil:
        def __reduce__(self) -> object:
            return (Path.touch, (tmp_path / "ran",))

    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(models_dir("m3e-small") / name, tmp_path)
    torch.save({"weights": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot open"):
        SentenceTransformerEmbedder(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.models("all-minilm-l6-v2")
def test_nothing_is_printed_while_loading(models_dir, capfd: pytest.CaptureFixture[str]) -> None:
    SentenceTransformerEmbedder(models_dir("m3e-small"), threads=2)
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


@pytest.mark.models("all-minilm-l6-v2")
def test_prompts_of_the_folder_reach_the_model(models_dir, tmp_path: Path) -> None:
    good = models_dir("all-minilm-l6-v2")
    shutil.copytree(good, tmp_path / "m", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "m" / "model.safetensors").symlink_to(good / "model.safetensors")
    settings = {"prompts": {"query": "question: ", "document": "passage: "}}
    (tmp_path / "m" / "config_sentence_transformers.json").write_text(json.dumps(settings))
    plain = SentenceTransformerEmbedder(good)
    prompted = SentenceTransformerEmbedder(tmp_path / "m")

    np.testing.assert_allclose(
        prompted.embed_queries(["chess"]), plain.embed_queries(["question: chess"]), atol=1e-6
    )
    np.testing.assert_allclose(
        prompted.embed_documents(["chess"]), plain.embed_documents(["passage: chess"]), atol=1e-6
    )
    assert plain.max_tokens == 254
    assert prompted.max_tokens == 252
    assert prompted.fingerprint.split()[1] != plain.fingerprint.split()[1]


@pytest.mark.models("all-minilm-l6-v2")
def test_similarity_of_the_published_model(models_dir) -> None:
    embedder = SentenceTransformerEmbedder(models_dir("all-minilm-l6-v2"))
    first, second = embedder.embed_documents(
        ["This is an example sentence", "Each sentence is converted"]
    )
    # The two sentences of the model card; the values of the first are widely published.
    np.testing.assert_allclose(first[:3], [0.0676569, 0.0634959, 0.0487131], atol=1e-4)
    assert float(first @ second) < 0.9
