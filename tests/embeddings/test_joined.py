"""Two embedding models in one vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from localrag import factory
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.models.embeddings.base import Embedder, Progress, Vectors
from localrag.models.embeddings.joined import WEIGHT, JoinedEmbedder, general
from localrag.models.registry.store import ModelStore

ENGLISH, CHINESE = "The deposit is due on the first of May.", "押金应于五月一日支付。"


class Counting:
    """Vectors of two numbers: how many characters are in the first half of the alphabet."""

    max_tokens = 7
    dimension = 2

    def __init__(self, name: str) -> None:
        self.fingerprint = name
        self.texts: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        self.texts += texts
        if progress:
            progress(len(texts))
        rows = [(1 + sum(letter < "n" for letter in text), 1 + len(text)) for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), 2)
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_documents(texts)


@pytest.fixture
def both() -> tuple[JoinedEmbedder, Counting, Counting]:
    first, second = Counting("first"), Counting("second")
    return JoinedEmbedder("first+second", first, second, languages=["en"]), first, second


def test_an_inner_product_is_the_weighted_mean_of_both_models_cosines(
    both: tuple[JoinedEmbedder, Counting, Counting],
) -> None:
    embedder, first, _ = both
    question = "When is the deposit due?"
    passages, queries = embedder.embed_documents([ENGLISH]), embedder.embed_queries([question])
    assert passages.shape == queries.shape == (1, embedder.dimension) == (1, 4)
    assert passages.dtype == queries.dtype == np.float32
    own = float(first.embed_documents([ENGLISH])[0] @ first.embed_queries([question])[0])
    assert passages[0] @ queries[0] == pytest.approx((own + WEIGHT * own) / (1 + WEIGHT), rel=1e-5)
    assert np.linalg.norm(passages[0]) == pytest.approx(1.0, rel=1e-5)


def test_another_language_is_left_to_the_model_of_many(
    both: tuple[JoinedEmbedder, Counting, Counting],
) -> None:
    embedder, first, second = both
    counts: list[int] = []
    passages = embedder.embed_documents([CHINESE, ENGLISH], counts.append)
    query = embedder.embed_queries(["押金什么时候付？"])[0]
    assert second.texts == ["", ENGLISH]  # its part for what it does not serve
    embedder.embed_documents([CHINESE])
    assert second.texts == ["", ENGLISH], "which is asked for once"
    assert sum(counts) == 2
    # To a Chinese question passages stand in the order that the first model gives them.
    own = first.embed_documents([CHINESE, ENGLISH]) @ first.embed_queries(["押金什么时候付？"])[0]
    assert passages @ query == pytest.approx(own / np.sqrt(1 + WEIGHT), rel=1e-5)
    assert embedder.embed_documents([]).shape == embedder.embed_queries([]).shape == (0, 4)


def test_a_model_of_which_nobody_says_the_languages_serves_all() -> None:
    first, second = Counting("first"), Counting("second")
    embedder = JoinedEmbedder("first+second", first, second, languages=())
    embedder.embed_documents([CHINESE, ENGLISH])
    assert second.texts == [CHINESE, ENGLISH]


def test_what_compares_sentences_takes_the_first_model_alone(
    both: tuple[JoinedEmbedder, Counting, Counting],
) -> None:
    embedder, first, _ = both
    assert general(embedder) is first
    assert general(first) is first
    assert embedder.count_tokens(["two words"]) == [2]
    assert embedder.max_tokens == 7


def test_each_model_and_the_weight_are_in_the_fingerprint() -> None:
    names = [("a", "b"), ("b", "a"), ("a", "c")]
    prints = {
        JoinedEmbedder("n", Counting(x), Counting(y), languages=["en"]).fingerprint
        for x, y in names
    }
    assert len(prints) == 3


@pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")
def test_two_names_with_a_plus_between_are_both_models(
    models_dir: Callable[[str], Path],
) -> None:
    models_dir("bge-small-en-v1.5-int8")
    models = ModelStore(models_dir("use-multilingual-v3").parent)
    name = "use-multilingual-v3+bge-small-en-v1.5-int8"
    assert models.knows(name)
    assert not models.knows("use-multilingual-v3+elsewhere/x")
    settings = Settings(embedding=EmbeddingSettings(model=name))
    embedder: Embedder = factory.make_embedder(settings, models)
    assert isinstance(embedder, JoinedEmbedder)
    assert embedder.dimension == 512 + 384
    question = embedder.embed_queries(["who can I ring when everything is down?"])[0]
    texts = ["In an emergency call 01632 960 555 at any hour.", "The rent is due in May."]
    close, far = embedder.embed_documents(texts) @ question
    assert close > far
    assert factory.make_embedder(Settings(), models).dimension == 512
