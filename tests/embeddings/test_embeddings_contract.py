"""What every embedder promises, asked of each of them with its real model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from passages import CHINESE, ENGLISH

from localrag.models.embeddings.base import Embedder

pytestmark = pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8", "all-minilm-l6-v2")

TEXTS = [*ENGLISH, *CHINESE, "", " ".join(ENGLISH), "a\0b"]


def onnx(folder: Path) -> Embedder:
    from localrag.models.embeddings.onnx import OnnxEmbedder

    return OnnxEmbedder(folder, threads=2)


def use(folder: Path) -> Embedder:
    from localrag.models.embeddings.use import UniversalSentenceEncoder

    return UniversalSentenceEncoder(folder, threads=2)


def sentence_transformer(folder: Path) -> Embedder:
    from localrag.models.embeddings.sentence_transformers import SentenceTransformerEmbedder

    return SentenceTransformerEmbedder(folder, threads=1)


@pytest.fixture(
    scope="module",
    params=[
        (onnx, "bge-small-en-v1.5-int8"),
        (use, "use-multilingual-v3"),
        (sentence_transformer, "all-minilm-l6-v2"),
        (sentence_transformer, "m3e-small"),
    ],
    ids=lambda param: param[1],
)
def embedder(request: pytest.FixtureRequest, models_dir: Callable[[str], Path]) -> Embedder:
    make, model = request.param
    new_embedder: Embedder = make(models_dir(model))
    return new_embedder


def test_vectors_are_unit_length_and_in_order(embedder: Embedder) -> None:
    for embed in (embedder.embed_documents, embedder.embed_queries):
        vectors = embed(TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(embed(TEXTS[::-1])[::-1], vectors, atol=1e-6)


def test_a_vector_does_not_depend_on_its_neighbours(embedder: Embedder) -> None:
    together = embedder.embed_documents(TEXTS)
    alone = np.concatenate([embedder.embed_documents([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_nothing_in_nothing_out(embedder: Embedder) -> None:
    assert embedder.embed_documents([]).shape == (0, embedder.dimension)
    assert embedder.embed_queries([]).shape == (0, embedder.dimension)
    assert embedder.count_tokens([]) == []


def test_progress_counts_every_text(embedder: Embedder) -> None:
    counts: list[int] = []
    embedder.embed_documents(TEXTS * 2, counts.append)
    assert sum(counts) == len(TEXTS) * 2


def test_tokens_are_counted_without_marks(embedder: Embedder) -> None:
    empty, short, twice = embedder.count_tokens(["", "chess opening", "chess opening " * 2])
    assert empty == 0
    assert 2 <= short <= 4
    assert twice == 2 * short


def test_a_text_of_max_tokens_is_read_to_its_end(embedder: Embedder) -> None:
    words = ["river"] * embedder.max_tokens
    while embedder.count_tokens([" ".join(words)])[0] > embedder.max_tokens:
        words.pop()
    text = " ".join(words)
    other = " ".join([*words[:-1], "the"])
    assert embedder.count_tokens([text, other]) == [embedder.max_tokens] * 2
    for embed in (embedder.embed_documents, embedder.embed_queries):
        first, second = embed([text, other])
        assert np.abs(first - second).max() > 1e-4


def test_the_fingerprint_is_stable_and_readable(
    embedder: Embedder, request: pytest.FixtureRequest
) -> None:
    name, digest = embedder.fingerprint.split(" ")
    assert name in request.node.name
    assert len(digest) == 16
