"""Documents that a question names, and their share of a list."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from localrag.library.indexes.base import NAMING
from localrag.library.records import ChunkIds
from localrag.retrieval.documents import DocumentsFirst, named_documents, without_terms
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Hit

CARDS = {
    1: {"lease", "ottway", "electronics", "2024"},
    2: {"lease", "brenn", "sons", "2024"},
    3: {"lease", "marsh", "2023"},
    4: {"minutes", "2024"},
    5: {"minutes", "2023"},
    6: {"lease", "kell", "2022"},
    7: {"lease", "tarn", "2021"},
    8: {"lease", "holm", "2020"},
}


class Holders:
    """An index of these cards."""

    def holders(self, term: str) -> ChunkIds:
        word = term.removeprefix(NAMING)
        assert word != term
        return np.array([n for n, words in CARDS.items() if word in words], dtype=np.int64)


def named(question: str) -> list[list[int]]:
    terms = question.split()
    counts = [sum(term in words for words in CARDS.values()) for term in terms]
    names = named_documents(terms, Holders(), len(CARDS), counts)
    return [name.tolist() for name in names]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("when does the lease with ottway electronics end", [[1]]),
        ("ottway electronics against brenn and sons", [[1], [2]]),
        ("the word ottway by itself", []),
        ("what do the minutes say", []),
        ("minutes of 2023", [[5]]),
        ("what does every lease say", []),
        ("what is the weather", []),
        ("", []),
    ],
)
def test_what_names_a_document(question: str, names: list[list[int]]) -> None:
    assert named(question) == names


def chunk(number: int) -> Chunk:
    """Chunk 12 is the third of document 1."""
    return Chunk(number, str(number // 10), number % 10, "", "", 1, 1, 0, 1)


class Search:
    """The same list whatever is asked."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = ids

    def retrieve(self, _: str, k: int) -> list[Hit]:
        hits = [Hit(number, 1 / rank) for rank, number in enumerate(self.ids, 1)]
        return hits[:k]


def first(ids: Sequence[int], names: list[list[int]], within: Sequence[int] = ()) -> list[int]:
    search = DocumentsFirst(
        Search(ids),
        lambda _: [np.array(name, dtype=np.int64) for name in names],
        lambda numbers: {number: chunk(number) for number in numbers},
        lambda documents: Search([n for n in within if str(n // 10) in documents]),
    )
    return [hit.chunk_id for hit in search.retrieve("?", 6)]


def test_named_documents_have_their_places_in_the_list() -> None:
    within = [10, 11, 12, 20, 21]
    assert first([10, 11, 12, 30, 20, 21], [[10], [20]], within) == [10, 20, 11, 21, 12, 30]


def test_without_names_the_list_is_that_of_the_search() -> None:
    assert first([10, 11, 12, 30, 20, 21, 22], []) == [10, 11, 12, 30, 20, 21]


def test_a_document_that_the_list_has_no_room_for_is_asked_for_by_itself() -> None:
    crowded = [number for number in range(100, 180) if number // 10 != 2]
    assert first(crowded, [[20]], within=[20, 21, 22])[:4] == [100, 20, 101, 21]


def test_within_a_document_its_name_says_nothing_more() -> None:
    searched: list[str] = []

    class Noting(Search):
        def retrieve(self, query: str, k: int) -> list[Hit]:
            searched.append(query)
            return super().retrieve(query, k)

    search = DocumentsFirst(
        Search([10]),
        lambda _: [np.array([10], dtype=np.int64)],
        lambda numbers: {number: chunk(number) for number in numbers},
        lambda _: Noting([11]),
        lambda question, first: question.replace("ottway", "").strip() if first == {10} else "",
    )
    assert [hit.chunk_id for hit in search.retrieve("ottway notice", 5)] == [10, 11]
    assert searched == ["notice"]


@pytest.mark.parametrize(
    ("question", "spent", "rest"),
    [
        ("When does the Ottway lease end?", {"ottway", "leas"}, "When does the end?"),
        ("望湖里的合同要提前多少日通知？", {"望", "湖里"}, "的合同要提前多少日通知？"),
        ("When does it end?", set(), "When does it end?"),
        ("Ottway", {"ottway"}, ""),
    ],
)
def test_a_question_without_what_names_a_document(
    question: str, spent: set[str], rest: str
) -> None:
    assert without_terms(question, frozenset(spent), Tokenizer()) == rest
