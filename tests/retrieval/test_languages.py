"""Two joined models over passages of several languages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from localrag import factory
from localrag.config.settings import EmbeddingSettings, Settings
from localrag.library.indexes.comparison import AllVectors
from localrag.models.embeddings.base import Progress, Vectors
from localrag.models.embeddings.joined import JoinedEmbedder
from localrag.models.registry.store import ModelStore
from localrag.retrieval.evidence import LANGUAGE_DEPTH
from localrag.retrieval.languages import SearchByLanguage
from localrag.types import Hit

QUESTION, FRAGE = "When is it due?", "何时到期？"
BY_FIRST = {"Paid in May.": 0.9, "五月支付。": 0.8, "Due in June.": 0.7, "六月到期。": 0.6}
BY_SECOND = {"Due in June.": 0.9, "Paid in May.": 0.5}
TEXTS = dict(enumerate(BY_FIRST))


class Cosines:
    """An embedder of which each text has a known cosine with every question."""

    max_tokens = 7
    dimension = 2

    def __init__(self, cosines: dict[str, float]) -> None:
        self.fingerprint = str(cosines)
        self._cosines = cosines

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [1 for _ in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        cosines = np.array([self._cosines.get(text, 0.4) for text in texts], dtype=np.float32)
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return np.array([[1, 0] for _ in texts], dtype=np.float32)


class CountedTexts:
    def __init__(self, texts: dict[int, str]) -> None:
        self.texts = texts
        self.asked: list[Sequence[int]] = []

    def __call__(self, ids: Sequence[int]) -> dict[int, str]:
        self.asked.append(ids)
        return {id_: self.texts[id_] for id_ in ids if id_ in self.texts}


JOINED = JoinedEmbedder("a+b", Cosines(BY_FIRST), Cosines(BY_SECOND), languages=["en"])


def index(texts: dict[int, str]) -> AllVectors:
    vectors = JOINED.embed_documents(list(texts.values())).astype(np.float16)
    return AllVectors(np.array(list(texts), dtype=np.int64), vectors)


def search(question: str, texts: dict[int, str] = TEXTS, k: int = 10) -> list[Hit]:
    searcher = SearchByLanguage(JOINED, index(texts), CountedTexts(texts))
    return searcher.search(JOINED.embed_queries([question])[0], k)


def found(hits: Sequence[Hit]) -> list[str]:
    return [TEXTS[hit.chunk_id] for hit in hits]


def test_both_models_in_one_list_put_other_languages_last() -> None:
    hits = index(TEXTS).search(JOINED.embed_queries([QUESTION])[0], 10)
    assert found(hits) == ["Due in June.", "Paid in May.", "五月支付。", "六月到期。"]


def test_other_languages_keep_their_places_and_the_second_model_orders_its_own() -> None:
    hits = search(QUESTION)
    assert found(hits) == ["Due in June.", "五月支付。", "Paid in May.", "六月到期。"]
    alone = index(TEXTS).search(JOINED.embed_queries([FRAGE])[0], 10)
    assert found(alone) == list(BY_FIRST)
    assert [hit.score for hit in hits] == [hit.score for hit in alone]


def test_a_question_in_another_language_is_the_first_models_and_reads_no_passage() -> None:
    texts = CountedTexts(TEXTS)
    query = JOINED.embed_queries([FRAGE])[0]
    hits = SearchByLanguage(JOINED, index(TEXTS), texts).search(query, 10)
    assert found(hits) == list(BY_FIRST)
    assert not texts.asked


def test_in_its_own_languages_alone_both_models_decide() -> None:
    english = {id_: text for id_, text in TEXTS.items() if text in BY_SECOND}
    query = JOINED.embed_queries([QUESTION])[0]
    assert search(QUESTION, english) == index(english).search(query, 10)


def test_languages_are_looked_at_among_the_first() -> None:
    many = dict.fromkeys(range(LANGUAGE_DEPTH + 20), "The meeting is on Monday.")
    texts = CountedTexts(many)
    query = JOINED.embed_queries([QUESTION])[0]
    hits = SearchByLanguage(JOINED, index(many), texts).search(query, 40)
    assert len(hits) == 40
    assert [len(ids) for ids in texts.asked] == [LANGUAGE_DEPTH]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_no_more_than_are_asked_for(k: int) -> None:
    hits = search(QUESTION, k=k)
    assert len({hit.chunk_id for hit in hits}) == len(hits) == k


def test_what_was_removed_between_the_two_searches_is_no_error() -> None:
    class Shrinking:
        def __init__(self) -> None:
            self.indexes = iter([index({0: TEXTS[0]}), index(TEXTS)])

        def search(self, query: Vectors, k: int, /) -> list[Hit]:
            return next(self.indexes).search(query, k)

    query = JOINED.embed_queries([QUESTION])[0]
    hits = SearchByLanguage(JOINED, Shrinking(), CountedTexts(TEXTS)).search(query, 10)
    assert found(hits) == ["Paid in May.", "五月支付。", "六月到期。"]


@pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")
def test_an_english_question_finds_a_chinese_passage_among_english_ones(
    models_dir: Callable[[str], Path],
) -> None:
    models_dir("bge-small-en-v1.5-int8")
    models = ModelStore(models_dir("use-multilingual-v3").parent)
    embedding_settings = EmbeddingSettings(model="use-multilingual-v3+bge-small-en-v1.5-int8")
    embedder = factory.make_embedder(Settings(embedding=embedding_settings), models)
    rules = ("Keep the {} dry.", "Ask the office for a {}.", "Who breaks a {} pays for it.")
    things = ("lamp", "key", "ladder", "drill", "carpet", "window", "bicycle", "radio")
    texts = [rule.format(thing) for rule in rules for thing in things]
    texts.append("宿舍内不得使用电炉，不得留宿外人。")
    vectors = embedder.embed_documents(texts).astype(np.float16)
    plain = AllVectors(np.arange(len(texts)), vectors)
    search = factory.by_language(embedder, plain, CountedTexts(dict(enumerate(texts))))
    question = "May I have guests overnight in the dormitory?"
    query = embedder.embed_queries([question])[0]
    assert texts[search.search(query, 5)[0].chunk_id] == texts[-1]
    assert texts[plain.search(query, 5)[0].chunk_id] != texts[-1]


def test_one_model_searches_as_it_is() -> None:
    vectors = index(TEXTS)
    assert factory.by_language(Cosines(BY_FIRST), vectors, CountedTexts(TEXTS)) is vectors
    assert isinstance(factory.by_language(JOINED, vectors, CountedTexts(TEXTS)), SearchByLanguage)
