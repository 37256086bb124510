"""Comparing rerankers: one search, shared answers, and a page that nothing can break out of."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from answers import answer
from comparison_page import Page
from scripted_llm import ScriptedLLM

from localrag.evaluation.comparisons.base import ComparedQuestion, Comparison, compare
from localrag.evaluation.comparisons.rerankers import Graded, ReferenceJudge, reranked
from localrag.messages import environment_language
from localrag.models.llms.choices import LogitChooser
from localrag.presentation.comparisons import of_rerankers
from localrag.presentation.comparisons import render_page as rendered
from localrag.rerankers.base import Reranking, Tell, best, unheard
from localrag.types import Answer, Chunk, Citation, ScoredChunk

TEXTS = (
    "Tea is grown on hills.",
    "The perceptron was presented in 1958.",
    "The museum opens at nine.",
    "Backpropagation became known in 1986.",
)
VICIOUS = "<script>alert(1)</script><img src=x onerror=alert(2)> ${title} $$ & \" ' </p>"


def passages(texts: Sequence[str] = TEXTS, source: str = "ai.pdf") -> list[ScoredChunk]:
    return [
        ScoredChunk(Chunk(n, "d", n, text, "", n, n, 0, len(text)), 1.0 - n / 10, source)
        for n, text in enumerate(texts, start=1)
    ]


class Reverse:
    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        return best(chunks, list(range(len(chunks))), k)


class Same:
    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        return best(chunks, [-rank for rank in range(len(chunks))], k)


def reranking(name: str, reranker: Reverse | Same, candidates: int) -> Reranking:
    return Reranking(name, reranker, candidates)


class Answering:
    """Writes the text of the first passage, and counts."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, question: str, contexts: Sequence[ScoredChunk]) -> Answer:
        self.calls.append([context.chunk.id for context in contexts])
        first = contexts[0]
        citations = (Citation(1, first.chunk.id, first.source, 1, first.chunk.text),)
        text = f"{first.chunk.text[:60]} [1]"
        return answer(text, citations, question=question, contexts=tuple(contexts), seconds=1.5)


def render_page(comparison: Comparison[Graded]) -> str:
    return rendered(of_rerankers(comparison))


def verdict(comparison: Comparison[Graded]) -> str:
    return str(of_rerankers(comparison).record()["verdict"])


def run(
    scores: Sequence[float] = (),
    reference: str = "",
    found: Sequence[ScoredChunk] | None = None,
    question: str = "When was the perceptron presented?",
) -> tuple[Comparison[Graded], Answering, list[str]]:
    write, searches = Answering(), list[str]()
    choices = ("是", "否") if "？" in question else ("Yes", "No")
    llm = ScriptedLLM(scores=[{choices[0]: score, choices[1]: 1 - score} for score in scores])

    def search(_: str) -> list[ScoredChunk]:
        searches.append(question)
        return list(found or passages())

    compared = compare(
        [ComparedQuestion(question, reference)],
        [
            reranked("none", None, write, 2),
            reranked("keyword", reranking("keyword", Same(), 3), write, 2),
            reranked("llm", reranking("llm", Reverse(), 4), write, 2),
        ],
        ReferenceJudge(llm, LogitChooser(llm)),
        search=search,
    )
    comparison = Comparison(("none", "keyword", "llm"), "small", 1, tuple(compared))
    return comparison, write, searches


def test_one_search_serves_all_ways_and_ranks_before_and_after_are_kept() -> None:
    comparison, write, searches = run()
    assert len(searches) == 1
    (question,) = comparison.questions
    before = {way.name: [placed.before for placed in way.passages] for way in question.ways}
    assert before == {"none": [1, 2], "keyword": [1, 2], "llm": [4, 3]}
    assert [way.answer.text for way in question.ways] == [
        "Tea is grown on hills. [1]",
        "Tea is grown on hills. [1]",
        "Backpropagation became known in 1986. [1]",
    ]
    assert write.calls == [[1, 2], [4, 3]], "the same passages are not answered from twice"
    assert [way.same_answer_as for way in question.ways] == [None, "none", None]
    assert verdict(comparison) == ""


def test_with_a_reference_the_ways_are_graded_in_the_language_of_the_question() -> None:
    # Passage 1 does not hold the answer, 2 does; the answer; passages 4 and 3 do not; the answer.
    comparison, _, _ = run((0.1, 0.9, 0.2, 0.3, 0.1, 0.1, 0.6, 0.7), "In 1986.")
    grades = comparison.questions[0].found
    assert [grade.rank for grade in grades] == [2, 2, None]
    assert [grade.agrees for grade in grades] == [0.2, 0.2, 0.6]
    assert [grade.complete for grade in grades] == [0.3, 0.3, 0.7]
    assert "Overall: best: llm" in verdict(comparison)
    question = "感知机是哪一年提出的？"
    comparison, _, _ = run((0.1, 0.9, 0.2, 0.3, 0.1, 0.1, 0.6, 0.7), "1986年", question=question)
    assert comparison.language == "zh"
    assert "总体：最好的是 llm" in verdict(comparison)
    assert run()[0].questions[0].found == ()


def test_the_page_shows_ways_ranks_and_the_verdict() -> None:
    comparison, _, _ = run((0.9,) * 8, "In 1958.")
    page = Page(render_page(comparison))
    for text in ("none", "keyword", "llm", "▲3", "▲1", "Overall: ", "In 1958.", "ai.pdf, p. 4"):
        assert text in page.text
    assert "$" not in page.text


def test_the_page_needs_nothing_from_elsewhere_and_escapes_everything() -> None:
    comparison, _, _ = run(
        (0.1,) * 8,
        VICIOUS,
        found=passages([VICIOUS] * 4, source=VICIOUS),
        question=VICIOUS,
    )
    text = render_page(comparison)
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & {
        tag for tag, _ in page.tags
    }
    attributes = [(name, value) for _, attrs in page.tags for name, value in attrs.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?://", text) == []
    assert "default-src 'none'" in text
    assert VICIOUS in page.text, "shown as it is"


def test_the_page_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "zh")
    environment_language.cache_clear()
    comparison, _, _ = run()
    text = render_page(comparison)
    environment_language.cache_clear()
    assert '<html lang="zh-CN">' in text
    assert "同一个问题" in text
