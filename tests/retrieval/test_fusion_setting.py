"""`retrieval.fusion` and `retrieval.dense_weight`, through the factory and a library on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fakes import HashEmbedder
from library.library_fixtures import EMBEDDER, add, document, open_library

from localrag import factory
from localrag.config.settings import RetrievalSettings, Settings
from localrag.library.indexes.base import Legs
from localrag.types import Hit


def no_model() -> factory.Model:
    raise AssertionError("nothing is expanded")


def search(directory: Path, **retrieval: object) -> list[Hit]:
    settings = Settings(retrieval=msgspec.convert(retrieval, RetrievalSettings))
    with open_library(directory, tokenize=factory.make_tokenizer(settings)) as library:
        retriever = factory.make_retriever(
            settings,
            Legs(library.vectors, library.keywords),
            library.chunks,
            EMBEDDER,
            factory.make_tokenizer(settings),
            allowed=None,
            model=no_model,
            on_step=print,
            chunks_of=library.chunk_ids_of,
        )
        return retriever.retrieve("moon tide", 5)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    assert isinstance(EMBEDDER, HashEmbedder)
    with open_library(tmp_path, tokenize=factory.make_tokenizer(Settings())) as library:
        for number, text in enumerate(["moon and tide", "the moon", "grain and salt", "old slate"]):
            add(library, document(text, source=f"{number}.txt"))
    return tmp_path


def test_every_fusion_finds_the_passage_with_both_legs_ranks(filled: Path) -> None:
    scores = set()
    for fusion in ("default", "rrf", "linear"):
        first = search(filled, fusion=fusion)[0]
        assert {rank.leg: rank.rank for rank in first.ranks} == {"dense": 1, "keyword": 1}
        scores.add(round(first.score, 4))
    assert scores == {1.0, round(2 / 61, 4)}


def test_the_default_is_the_one_that_weighs_evidence(filled: Path) -> None:
    assert search(filled) == search(filled, fusion="default")


@pytest.mark.parametrize(("weight", "found"), [(0.0, 2), (1.0, 4)])
def test_the_dense_weight_goes_from_keyword_only_to_dense_only(
    filled: Path, weight: float, found: int
) -> None:
    assert len(search(filled, fusion="linear", dense_weight=weight)) == found
