"""Real vectors of real models in FAISS: the passage that answers comes first."""

from collections.abc import Sequence

import numpy as np
import pytest
from passages import CHINESE, CHINESE_QUESTIONS, ENGLISH, ENGLISH_QUESTIONS

from localrag.models.embeddings.base import Embedder
from localrag.models.embeddings.onnx import OnnxEmbedder
from localrag.models.embeddings.sentence_transformers import SentenceTransformerEmbedder
from localrag.models.embeddings.use import UniversalSentenceEncoder

pytestmark = pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8", "all-minilm-l6-v2")


def first_hits(embedder: Embedder, passages: Sequence[str], questions: Sequence[str]) -> list[int]:
    import faiss

    index = faiss.IndexFlatIP(embedder.dimension)
    index.add(embedder.embed_documents(passages))
    _, rows = index.search(embedder.embed_queries(questions), 1)
    return [int(row) for row in rows[:, 0]]


@pytest.mark.parametrize(
    ("passages", "questions"),
    [
        pytest.param(ENGLISH, ENGLISH_QUESTIONS, id="en-en"),
        pytest.param(CHINESE, CHINESE_QUESTIONS, id="zh-zh"),
        pytest.param(CHINESE, ENGLISH_QUESTIONS, id="en-zh"),
        pytest.param(ENGLISH, CHINESE_QUESTIONS, id="zh-en"),
    ],
)
def test_the_starter_embedding_serves_both_languages_and_across(
    models_dir, passages: Sequence[str], questions: Sequence[str]
) -> None:
    embedder = UniversalSentenceEncoder(models_dir("use-multilingual-v3"))
    assert first_hits(embedder, passages, questions) == list(range(6))


def test_a_translation_is_nearer_than_any_other_passage(models_dir) -> None:
    embedder = UniversalSentenceEncoder(models_dir("use-multilingual-v3"))
    across = embedder.embed_documents(ENGLISH) @ embedder.embed_documents(CHINESE).T
    assert np.argmax(across, axis=1).tolist() == list(range(6))


def test_bge_small_by_onnx_runtime(models_dir) -> None:
    embedder = OnnxEmbedder(models_dir("bge-small-en-v1.5-int8"))
    assert first_hits(embedder, ENGLISH + CHINESE, ENGLISH_QUESTIONS) == list(range(6))


def test_all_minilm_by_sentence_transformers(models_dir) -> None:
    embedder = SentenceTransformerEmbedder(models_dir("all-minilm-l6-v2"))
    assert first_hits(embedder, ENGLISH + CHINESE, ENGLISH_QUESTIONS) == list(range(6))


def test_m3e_small_by_sentence_transformers(models_dir) -> None:
    embedder = SentenceTransformerEmbedder(models_dir("m3e-small"))
    assert first_hits(embedder, CHINESE + ENGLISH, CHINESE_QUESTIONS) == list(range(6))
