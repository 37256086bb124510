from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_cross_encoder import save_tiny_cross_encoder

from localrag.errors import ModelError
from localrag.rerankers.cross_encoder import SentenceTransformersCrossEncoder

PASSAGES = ["the perceptron", "a", "the word " * 6, "perceptron 1958 the the"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_cross_encoder(tmp_path_factory.mktemp("model"))


def test_scores_are_the_logits_of_each_pair_by_itself(folder: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    expected = []
    for passage in PASSAGES:
        with torch.no_grad():
            pair = tokenizer("who?", passage, return_tensors="pt")
            expected.append(float(model(**pair).logits[0, 0]))
    scores = SentenceTransformersCrossEncoder(folder).scores("who?", PASSAGES)
    assert scores.dtype == np.float32
    assert scores == pytest.approx(expected, abs=1e-5)
    assert len(set(np.round(scores, 4))) == len(PASSAGES), "the passages must be told apart"


def test_the_end_of_a_long_passage_is_cut(folder: Path) -> None:
    model = SentenceTransformersCrossEncoder(folder)
    first, longer = model.scores("who?", ["the word " * 100, "the word " * 500])
    assert first == longer
    by_question = model.scores("word " * 500, ["the " * 10, "perceptron " * 10])
    assert by_question[0] != by_question[1]


def test_a_classifier_is_not_a_reranker(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="3 classes"):
        SentenceTransformersCrossEncoder(save_tiny_cross_encoder(tmp_path, labels=3))


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        SentenceTransformersCrossEncoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot open"):
        SentenceTransformersCrossEncoder(tmp_path)
